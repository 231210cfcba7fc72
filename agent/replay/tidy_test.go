package replay

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/topic"
)

// TestBarriersDoNotShow: barriers come, and the results are those without any.
func TestBarriersDoNotShow(t *testing.T) {
	cfg, err := config.Parse("bench.yaml", []byte(benchConfig))
	if err != nil {
		t.Fatal(err)
	}
	g := cfg.Pipelines[0].Graph
	var recording []byte
	for n := range 20_000 {
		payload := fmt.Sprintf(`{"ts":%d,"device":"dev-%d","temperature":%d,"humidity":%d}`, 1767225600000+int64(n)*100, n%7, n%31, n%100)
		recording = fmt.Appendf(recording, "{\"n\":%d,\"at_ms\":%d,\"topic\":\"site/a/dev/b/telemetry\",\"payload\":%q}\n", n, 1767225600000+int64(n)*100, payload)
	}
	replay := func(every int) (string, uint64) {
		var out bytes.Buffer
		o := Options{
			Graph: g, Input: bytes.NewReader(recording), Out: &out, BatchRows: 16, tidy: newTidy(every),
			Routes: []Route{{Source: g.Sources[0].Name, Match: func(name []byte) bool { return topic.Match(g.Sources[0].Filter, name) }}},
		}
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return out.String(), o.tidy.barriers
	}
	without, none := replay(1 << 30)
	with, some := replay(64)
	if none != 0 || some == 0 {
		t.Errorf("%d barriers where none is due, %d where many are", none, some)
	}
	if with != without || with == "" {
		t.Errorf("with barriers %d bytes come out, %d without", len(with), len(without))
	}
}
