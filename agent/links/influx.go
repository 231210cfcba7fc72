package links

import (
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/influx"
)

var influxUnits = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

// influxEndpoint makes an InfluxDB sink as configured.
func (site *Site) influxEndpoint(s *plan.Sink) (uplink.Endpoint, error) {
	t := s.Spec.Influx
	c := influx.Config{HTTP: httpsink.Default(), URL: t.URL.Value, Org: t.Org.Value, Bucket: t.Bucket.Value, Measurement: t.Measurement.Value,
		Time: t.Time.Value, TimeUnit: influxUnits[t.TimeUnit], Distinct: t.Distinct, SignedOnly: !t.Unsigned, Gzip: t.Gzip}
	c.HTTP.TokenFile, c.HTTP.TLS, c.HTTP.Transports, c.HTTP.DenyPrivate = t.TokenFile, tlsOf(&t.Certificates), site.Transports, site.DenyPrivate
	for _, col := range s.Points {
		c.Columns = append(c.Columns, influx.Column(col))
	}
	return influx.New(c)
}
