package crash

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/ends"
	"github.com/weirstream/weir/tests/rig"
)

// mqttEnd is another broker than that of the sources. Immediate results go at QoS 1, to a consumer that takes each sequence once; the others at
// QoS 2, which come once by themselves.
type mqttEnd struct {
	server
	far    *rig.Subscriber
	harmed map[string]bool
}

// farBroker is its name in the config.
const farBroker = "far"

func startMQTTEnd(t *testing.T, dir string) (end, error) {
	dir, err := far(dir, "mqtt")
	if err != nil {
		return nil, err
	}
	m, err := rig.StartMosquitto(dir, "")
	if err != nil {
		return nil, err
	}
	t.Cleanup(m.Kill)
	e := &mqttEnd{harmed: map[string]bool{}}
	if e.far, err = rig.NewSubscriber(m.Addr); err != nil {
		return nil, err
	}
	t.Cleanup(e.far.Close)
	// mosquitto keeps nothing of the last second before a kill -9, and weir tells that as a gap (uplink/mqttsink): here it restarts.
	e.server, err = newServer(t, m.Addr, func() { _ = m.Stop() }, m.Start)
	return e, err
}

func (e *mqttEnd) broker() string {
	return fmt.Sprintf("  %s: {url: \"tcp://%s\", connect_timeout: 5s}\n", farBroker, e.proxy.Addr())
}

func (e *mqttEnd) target(uid string) string {
	return fmt.Sprintf("mqtt: {broker: %s, topic: results/%s, qos: %d, timeout: 5s}", farBroker, uid, qosOf(uid))
}

func qosOf(uid string) int {
	if strings.HasPrefix(uid, "now-") {
		return 1
	}
	return 2
}

func (e *mqttEnd) held(uid string) ([]ends.Record, error) {
	all, err := e.far.Drain()
	if err != nil {
		return nil, err
	}
	records, err := ends.Messages(all, uid, qosOf(uid) == 1)
	if e.harmed[uid] && len(records) > 0 {
		records = records[1:]
	}
	return records, err
}

// harm: the consumer missed one.
func (e *mqttEnd) harm(uid string) error {
	e.harmed[uid] = true
	return nil
}

// influxEnd keeps points: a repeat is the same one, so only what is lost or wrong can show.
type influxEnd struct {
	server
	influx *rig.Influx
}

func startInfluxEnd(t *testing.T, dir string) (end, error) {
	dir, err := far(dir, "influx")
	if err != nil {
		return nil, err
	}
	n, err := rig.StartInflux(dir)
	if err != nil {
		return nil, err
	}
	t.Cleanup(n.Kill)
	e := &influxEnd{influx: n}
	e.server, err = newServer(t, n.Addr, n.Kill, n.Start)
	return e, err
}

func (e *influxEnd) target(uid string) string {
	at := "ts"
	if strings.HasPrefix(uid, "win-") {
		at = "window_start"
	}
	return fmt.Sprintf(`influx: {url: "http://%s", bucket: %s, measurement: %s, time: %s, distinct: true, unsigned: false, fields: {seq: $seq, row: $row}, timeout: 5s}`,
		e.proxy.Addr(), rig.InfluxBucket, uid, at)
}

func (e *influxEnd) held(uid string) ([]ends.Record, error) { return ends.Points(e.influx, uid) }

func (e *influxEnd) harm(uid string) error {
	rows, err := e.influx.Query(`SELECT seq FROM "` + uid + `" WHERE seq = 1`)
	if err != nil || len(rows) == 0 {
		return errors.Join(err, errors.New("no point to harm"))
	}
	_, err = e.influx.Query(fmt.Sprintf(`DELETE FROM "%s" WHERE time = %v`, uid, rows[0][0]))
	return err
}
