package links

import (
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/objectsink"
)

// objectsConfig is a sink of objects as configured.
func (site *Site) objectsConfig(s *plan.Sink) objectsink.Config {
	o := s.Spec.Objects
	c := objectsink.Config{Directory: o.Path, Format: o.Format.Value, Compression: o.Compression, Board: site.Board, Logger: site.Logger}
	if s.Whole < 0 {
		for _, col := range s.Columns {
			c.Columns = append(c.Columns, col.Name)
		}
	}
	if o.Endpoint.Value != "" {
		c.S3 = &bucket.S3{Endpoint: o.Endpoint.Value, Region: o.Region, Bucket: o.Bucket.Value, Prefix: o.Prefix.Value,
			CredentialsFile: o.CredentialsFile, CAFile: o.CAFile, DialTimeout: 30 * time.Second, DenyPrivate: site.DenyPrivate,
			Dates: site.Dates}
	}
	return c
}
