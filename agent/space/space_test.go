package space

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/plan"
)

func TestLimitsAreComparedWithTheDisk(t *testing.T) {
	cfg := config.Default()
	cfg.StateDir.Value = t.TempDir() + "/not/yet/made"
	p := &config.Pipeline{}
	for range 3 {
		p.Sinks = append(p.Sinks, &plan.SinkSpec{MaxBytes: 256 << 20})
	}
	cfg.Pipelines = []*config.Pipeline{p}
	s := Of(cfg)
	if s.Disk == 0 || s.Journal != 1<<30 || s.Outboxes < 3*256<<20 || s.Outboxes > 3*400<<20 {
		t.Errorf("%+v", s)
	}
	s.Disk = s.Journal + s.Outboxes + s.Reserve
	if w := s.Warning(); w != "" {
		t.Error(w)
	}
	s.Disk--
	if w := s.Warning(); !strings.Contains(w, "1GiB") || !strings.Contains(w, "max_bytes") {
		t.Errorf("%q", w)
	}
	p.Sinks[0].MaxBytes = 1 << 50
	if w := Of(cfg).Warning(); w == "" {
		t.Error("no warning about a petabyte")
	}
}
