package links

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink"
)

// TestEachTargetBoundsItsBatches: what the config says of batches reaches the sender from whichever target has it; what it leaves out stays as it is by default.
func TestEachTargetBoundsItsBatches(t *testing.T) {
	const records, bytes, timeout = 7, 1 << 12, 3 * time.Second
	for name, set := range map[string]func(s *plan.SinkSpec, n int, b, ns int64){
		"http": func(s *plan.SinkSpec, n int, b, ns int64) {
			s.HTTP = &plan.HTTPTarget{BatchRecords: n, BatchBytes: b, TimeoutNs: ns}
		},
		"objects": func(s *plan.SinkSpec, n int, b, ns int64) {
			s.Objects = &plan.ObjectsTarget{BatchRecords: n, BatchBytes: b, TimeoutNs: ns}
		},
		"nats": func(s *plan.SinkSpec, n int, b, ns int64) {
			s.NATS = &plan.NATSTarget{BatchRecords: n, BatchBytes: b, TimeoutNs: ns}
		},
		"mqtt": func(s *plan.SinkSpec, n int, b, ns int64) {
			s.MQTT = &plan.MQTTTarget{BatchRecords: n, BatchBytes: b, TimeoutNs: ns}
		},
		"influx": func(s *plan.SinkSpec, n int, b, ns int64) {
			s.Influx = &plan.InfluxTarget{BatchRecords: n, BatchBytes: b, TimeoutNs: ns}
		},
		"postgres": func(s *plan.SinkSpec, n int, b, ns int64) {
			s.Postgres = &plan.PostgresTarget{BatchRecords: n, BatchBytes: b, TimeoutNs: ns}
		},
	} {
		c, s := uplink.Default(), &plan.SinkSpec{Priority: "high"}
		set(s, records, bytes, int64(timeout))
		if err := senderConfig(s, &c); err != nil || c.MaxResults != records || c.MaxBytes != bytes || c.Timeout != timeout || c.Priority != uplink.PriorityHigh {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		c, want := uplink.Default(), uplink.Default()
		set(s, 0, 0, 0)
		if err := senderConfig(s, &c); err != nil || c.MaxResults != want.MaxResults || c.MaxBytes != want.MaxBytes || c.Timeout != want.Timeout {
			t.Errorf("%s: %+v, %v; want the default", name, c, err)
		}
	}
}

// TestStreamOptions: when results become visible, and what happens when there are too many, is the queue's.
func TestStreamOptions(t *testing.T) {
	for _, c := range []struct {
		commit, onLimit string
		want            outbox.StreamOptions
	}{
		{"checkpoint", "block", outbox.StreamOptions{}},
		{"immediate", "drop_oldest", outbox.StreamOptions{Mode: outbox.ImmediateCommit, OnFull: outbox.DropOldest}},
		{"at-least-once", "", outbox.StreamOptions{Mode: outbox.AtLeastOnce}},
	} {
		s := &plan.Sink{Commit: c.commit, Spec: &plan.SinkSpec{OnLimit: c.onLimit, MaxBytes: 9, TTLNs: 8}}
		if is := StreamOptions(s); is.Mode != c.want.Mode || is.OnFull != c.want.OnFull || is.MaxBytes != 9 || is.TTL != 8 {
			t.Errorf("%s, %s: %+v", c.commit, c.onLimit, is)
		}
	}
}

// TestEndpointRefusals: a file sink's directory is made, and what a config that was checked cannot hold is an error all the same.
func TestEndpointRefusals(t *testing.T) {
	site := &Site{Broker: func(string) *config.Broker { return nil }}
	dir := filepath.Join(t.TempDir(), "not", "yet")
	e, err := site.Endpoint(&plan.Sink{UID: "f", Spec: &plan.SinkSpec{File: &plan.FileTarget{File: filepath.Join(dir, "out"), RotateBytes: 1 << 20, Keep: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.OS.List(dir); errors.Join(err, e.Close()) != nil {
		t.Error(err)
	}
	for want, spec := range map[string]*plan.SinkSpec{
		"broker b of an mqtt sink is not defined": {MQTT: &plan.MQTTTarget{Broker: plan.Text{Value: "b"}}},
		"BUG: sink s has no target":               {},
	} {
		if _, err := site.Endpoint(&plan.Sink{UID: "s", Spec: spec}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestWaysAskTheClockLate: they are made before there is one.
func TestWaysAskTheClockLate(t *testing.T) {
	var now *pipeline.Stamp
	ways := Ways([]*config.Link{{Name: plan.Text{Value: "lte"}, Bandwidth: 1 << 20}, {Name: plan.Text{Value: "free"}}}, func() pipeline.Stamp { return *now })
	now = &pipeline.Stamp{Wall: 12, Trusted: true}
	if wall, trusted := ways["lte"].Clock(); wall != 12 || !trusted {
		t.Errorf("%d, %v", wall, trusted)
	}
	if ways["lte"].Limiter == nil || ways["free"].Limiter != nil {
		t.Error("a link is bounded where its bandwidth is set, and only there")
	}
}

// TestDivergencesOfASink: each sink has its own count, and where the latest was.
func TestDivergencesOfASink(t *testing.T) {
	var d Divergences
	d.Add("p", "a", 3)
	d.Add("p", "a", 5)
	d.Add("p", "b", 4)
	if is := d.Of("p", "a"); is != (Divergence{Count: 2, Seq: 5}) {
		t.Errorf("%+v", is)
	}
	if is := d.Of("q", "a"); is != (Divergence{}) {
		t.Errorf("%+v", is)
	}
}
