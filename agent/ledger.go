package agent

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline/exec"
)

// balance checks the sums of a pipeline's ledger (docs/ledger.md). The counts are taken while records flow, each task's
// after a batch: sums within a task match always, those over tasks once the pipeline is at rest.
func balance(p *api.PipelineStatus) (ok bool, where string) {
	var off []string
	differ := func(made, accounted uint64, format string, args ...any) {
		if made != accounted {
			off = append(off, fmt.Sprintf(format, args...)+fmt.Sprintf(" %d but accounts for %d", made, accounted))
		}
	}
	var dead, refused uint64
	for _, s := range p.Sources {
		differ(s.Received+s.Split, s.Rows+s.Tombstones+s.Dead, "source %s received", s.Name)
		dead += s.Dead
	}
	for _, s := range p.Steps {
		dead += s.Dead
	}
	for _, s := range p.Sinks {
		differ(s.Emitted, s.Confirmed+s.Pending+s.Dropped+s.Rejected, "sink %s emitted", s.UID)
		if s.UID == exec.DeadSink {
			refused = s.Emitted
		}
	}
	// What cannot be encoded is refused by its sink, which counts nothing.
	if len(p.Sinks) > 0 && dead > refused && level(p) {
		off = append(off, fmt.Sprintf("sources and steps refused %d but %d became dead letters", dead, refused))
	}
	if d := p.Dead; d != nil {
		differ(d.Kept, d.Held+d.Evicted+d.Expired+d.Requeued, "dead letters kept")
		if k := d.Sink; k != nil {
			differ(k.Kept, k.Before+k.Delivered+k.Pending+k.Dropped+k.Rejected, "dead letters for %s", k.Stream)
		}
	}
	return len(off) == 0, strings.Join(off, "; ")
}

// level tells whether all tasks have worked through the same records: the last one takes what the others refused.
func level(p *api.PipelineStatus) bool {
	for _, t := range p.Tasks {
		if t.Position != p.Tasks[0].Position {
			return false
		}
	}
	return true
}
