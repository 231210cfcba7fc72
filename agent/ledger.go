package agent

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/agent/api"
)

// balance checks the sums of a pipeline's ledger (docs/ledger.md). The counts are taken while records flow, each task's
// after a batch: sums within a task match always, those over tasks once the pipeline is at rest.
func balance(p *api.PipelineStatus) (ok bool, where string) {
	var off []string
	for _, s := range p.Sources {
		if sum := s.Rows + s.Tombstones + s.Dead; sum != s.Received+s.Split {
			off = append(off, fmt.Sprintf("source %s received %d but accounts for %d", s.Name, s.Received+s.Split, sum))
		}
	}
	for _, s := range p.Sinks {
		if sum := s.Confirmed + s.Pending; sum != s.Emitted {
			off = append(off, fmt.Sprintf("sink %s emitted %d but accounts for %d", s.UID, s.Emitted, sum))
		}
	}
	return len(off) == 0, strings.Join(off, "; ")
}
