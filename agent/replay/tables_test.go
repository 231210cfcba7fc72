package replay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/topic"
	"github.com/weirstream/weir/store/pebblekv"
)

// TestTablesOnFlash: with the state on flash the results are the same; it is written there, and the directory is gone at the end.
func TestTablesOnFlash(t *testing.T) {
	cfg, err := config.Parse("bench.yaml", []byte(benchConfig))
	if err != nil {
		t.Fatal(err)
	}
	g, dir := cfg.Pipelines[0].Graph, t.TempDir()
	tables, err := OpenTables(dir, 1<<20)
	if errors.Is(err, pebblekv.ErrNotBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var recording []byte
	for n := range 20_000 {
		payload := fmt.Sprintf(`{"ts":%d,"device":"dev-%d","temperature":%d,"humidity":%d}`, 1767225600000+int64(n)*100, n%5000, n%31, n%100)
		recording = fmt.Appendf(recording, "{\"n\":%d,\"at_ms\":%d,\"topic\":\"site/a/dev/b/telemetry\",\"payload\":%q}\n", n, 1767225600000+int64(n)*100, payload)
	}
	replay := func(o Options) string {
		var out bytes.Buffer
		o.Graph, o.Input, o.Out = g, bytes.NewReader(recording), &out
		o.Routes = []Route{{Source: g.Sources[0].Name, Match: func(name []byte) bool { return topic.Match(g.Sources[0].Filter, name) }}}
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	memory, flash := replay(Options{}), replay(Options{Tables: tables.New})
	if memory != flash || memory == "" {
		t.Errorf("%d bytes come out with the state in memory, %d with the state on flash", len(memory), len(flash))
	}
	if tables.Written() == 0 {
		t.Error("nothing was written to flash")
	}
	if err := tables.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}
