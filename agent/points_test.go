package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

const pointsPipeline = `
  p:
    start: earliest
    checkpoint: {interval: 50ms}
    steps:
      - {uid: all, from: s, select: [id, k]}
    sinks:
      - {uid: topics, from: all, mqtt: {broker: far, topic: "results/{k}", qos: 2}}
      - {uid: points, from: all, commit: immediate, influx: {url: "http://INFLUX", bucket: b, measurement: m, tags: {k: k}, distinct: true, unsigned: false}}
brokers:
  none: {url: "tcp://127.0.0.1:9"}
  far: {url: "tcp://MQTT"}
`

// TestBrokerAndPointsDownAtBoot: both sinks are down, named in status, hold their results over a restart, and deliver each once when they are up.
func TestBrokerAndPointsDownAtBoot(t *testing.T) {
	influx, err := rig.NewInflux(t.TempDir(), "")
	if err != nil {
		t.Skipf("NOT TESTED against influxd: %v", err)
	}
	broker, err := rig.StartMosquitto(t.TempDir(), "")
	if err != nil {
		t.Skipf("NOT TESTED against mosquitto: %v", err)
	}
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, pointsPipeline)
	b.text = strings.NewReplacer("INFLUX", influx.Addr, "MQTT", broker.Addr).Replace(b.text)
	sink := func(s *api.Status, uid string) *api.SinkLedger {
		for i := range s.Pipelines[0].Sinks {
			if k := &s.Pipelines[0].Sinks[i]; k.UID == uid {
				return k
			}
		}
		return &api.SinkLedger{}
	}
	b.start()
	b.put(1, 200)
	b.await("both are down", func(s *api.Status) bool {
		return strings.Contains(sink(s, "topics").Error, "refused") && strings.Contains(sink(s, "points").Error, "refused")
	})
	b.halt()
	b.start()
	b.put(201, 300)
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	defer broker.Kill()
	if err := influx.Start(); err != nil {
		t.Fatal(err)
	}
	defer influx.Kill()
	b.await("the bucket is missing", func(s *api.Status) bool { return strings.Contains(sink(s, "points").Error, "not found") })
	if err := influx.MakeBucket(); err != nil {
		t.Fatal(err)
	}
	s := b.await("both catch up", func(s *api.Status) bool {
		return sink(s, "topics").Emitted >= 300 && sink(s, "topics").Pending == 0 && sink(s, "points").Emitted >= 300 && sink(s, "points").Pending == 0
	})
	for _, uid := range []string{"topics", "points"} {
		if k := sink(&s, uid); k.State != "ok" || k.Rejected+k.Dropped != 0 {
			t.Errorf("%+v", k)
		}
	}
	b.halt()
	rows, err := influx.Query("SELECT count(id), min(id), max(id) FROM m")
	if err != nil || len(rows) != 1 || fmt.Sprint(rows[0][1:]) != "[300 1 300]" {
		t.Errorf("count, least and greatest id: %v, %v", rows, err)
	}
}
