package ends

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/influx"
	"github.com/weirstream/weir/uplink/mqttsink"
)

// Message takes a message of the JSON envelope apart. What is no row is an error.
func Message(payload []byte) (generation uint64, r Record, err error) {
	var m struct {
		Generation, Seq uint64
		Gap             *string
		Data            json.RawMessage
	}
	if err := json.Unmarshal(payload, &m); err != nil {
		return 0, r, fmt.Errorf("message %.80q: %w", payload, err)
	}
	if m.Gap != nil || m.Data == nil {
		return 0, r, fmt.Errorf("message %.80q is no row", payload)
	}
	return m.Generation, Record{m.Seq, m.Data}, nil
}

// Messages reads the messages of one sink, topic results/SINK, in the order of sequences. once is what docs/sinks.md tells consumers of QoS 1 to do: each sequence
// is taken once; else one that came twice is there twice. Gaps are errors.
func Messages(all []rig.Heard, sink string, once bool) (records []Record, err error) {
	type name struct{ generation, seq uint64 }
	seen := map[name]bool{}
	for _, h := range all {
		if strings.HasSuffix(h.Topic, "/"+sink+"/gaps") {
			return nil, fmt.Errorf("gap %s", h.Payload)
		}
		if h.Topic != "results/"+sink {
			continue
		}
		generation, r, err := Message(h.Payload)
		if err != nil {
			return nil, err
		}
		if n := (name{generation, r.Seq}); !once || !seen[n] {
			seen[n] = true
			records = append(records, r)
		}
	}
	slices.SortStableFunc(records, func(a, b Record) int { return int(int64(a.Seq - b.Seq)) })
	return records, nil
}

func startMQTT(qos int) func(t testing.TB) (End, error) {
	return func(t testing.TB) (e End, err error) {
		m, err := rig.StartMosquitto(t.TempDir(), "")
		if err != nil {
			return e, err
		}
		t.Cleanup(m.Kill)
		far, err := rig.NewSubscriber(m.Addr)
		if err != nil {
			return e, err
		}
		t.Cleanup(far.Close)
		e.Addr = m.Addr
		e.Connect = func(addr, _ string) (uplink.Endpoint, error) {
			c := mqttsink.Default()
			c.Broker.URL, c.Broker.ConnectTimeout, c.Topic, c.QoS = "mqtt://"+addr, dialTimeout, "results/{$sink}", qos
			return mqttsink.New(c)
		}
		e.Held = func(sink string) ([]Record, error) {
			all, err := far.Drain()
			if err != nil {
				return nil, err
			}
			return Messages(all, sink, qos == 1)
		}
		return e, nil
	}
}

// Points reads the fields seq and row of a measurement, in the order of sequences.
func Points(n *rig.Influx, measurement string) (records []Record, err error) {
	rows, err := n.Query(`SELECT seq, "row" FROM "` + measurement + `"`)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		number, _ := r[1].(json.Number)
		seq, err := number.Int64()
		text, ok := r[2].(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("point %v lacks seq or row", r)
		}
		records = append(records, Record{uint64(seq), []byte(text)})
	}
	slices.SortStableFunc(records, func(a, b Record) int { return int(int64(a.Seq - b.Seq)) })
	return records, nil
}

func startInflux(t testing.TB) (e End, err error) {
	n, err := rig.StartInflux(t.TempDir())
	if err != nil {
		return e, err
	}
	t.Cleanup(n.Kill)
	e.Addr = n.Addr
	e.Connect = func(addr, sink string) (uplink.Endpoint, error) {
		h := httpsink.Default()
		h.DialTimeout = dialTimeout
		c := influx.Config{HTTP: h, URL: "http://" + addr, Bucket: rig.InfluxBucket, Measurement: sink, Time: "window_start", TimeUnit: time.Millisecond, Distinct: true, SignedOnly: true, Gzip: true}
		c.Columns = []influx.Column{{Name: "device", From: "device", Tag: true}, {Name: "seq", From: influx.FromSeq}, {Name: "mean", From: "mean", Kind: pipeline.Float},
			{Name: "n", From: "n", Kind: pipeline.Int}, {Name: "revision", From: "revision", Kind: pipeline.Int}, {Name: "window_end", From: "window_end", Kind: pipeline.Int}}
		return influx.New(c)
	}
	e.Held = func(sink string) (records []Record, err error) {
		rows, err := n.Query(`SELECT seq, device, mean, n, revision, window_end FROM "` + sink + `"`)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			number, _ := r[1].(json.Number)
			seq, err := number.Int64()
			if err != nil {
				return nil, err
			}
			at, _ := r[0].(json.Number).Int64()
			data, err := json.Marshal(map[string]any{"device": r[2], "window_start": at / 1e6, "window_end": r[6], "mean": r[3], "n": r[4], "revision": r[5]})
			if err != nil {
				return nil, err
			}
			records = append(records, Record{uint64(seq), data})
		}
		slices.SortStableFunc(records, func(a, b Record) int { return int(int64(a.Seq - b.Seq)) })
		return records, nil
	}
	return e, nil
}
