package rig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/api"
)

// Every end-to-end test ends with the ledger: what came in is accounted for to the last message. The sums are computed here once more,
// beside the agent's own.

// LedgerErrors names the sums that do not match in the status of an agent at rest. Pipelines that do not run have none.
func LedgerErrors(s *api.Status) (errs []string) {
	differ := func(made, accounted uint64, format string, args ...any) {
		if made != accounted {
			errs = append(errs, fmt.Sprintf(format, args...)+fmt.Sprintf(": %d, accounted for %d", made, accounted))
		}
	}
	for _, b := range s.Sessions {
		c := b.Counters
		differ(c["received"], c["journaled"]+c["duplicates"]+c["retained_ignored"]+c["turned_away"], "session %s received", b.Name)
	}
	for i := range s.Pipelines {
		p := &s.Pipelines[i]
		if p.State != "running" || p.Dead == nil {
			continue
		}
		if !p.Balanced {
			errs = append(errs, fmt.Sprintf("pipeline %s says: %s", p.Name, p.Imbalance))
		}
		dead, letters := uint64(0), uint64(0)
		for _, x := range p.Sources {
			differ(x.Received+x.Split, x.Processed+x.Dead, "pipeline %s, source %s received", p.Name, x.Name)
			dead += x.Dead
		}
		for _, x := range p.Steps {
			dead += x.Dead
		}
		for _, x := range p.Sinks {
			differ(x.Emitted, x.Confirmed+x.Pending+x.Dropped+x.Rejected, "pipeline %s, sink %s emitted", p.Name, x.UID)
			if x.UID == "$dead" {
				letters = x.Emitted
			}
		}
		if dead > letters {
			differ(dead, letters, "pipeline %s refused", p.Name)
		}
		differ(p.Dead.Kept, p.Dead.Held+p.Dead.Evicted+p.Dead.Expired+p.Dead.Requeued, "pipeline %s kept dead letters", p.Name)
	}
	return errs
}

// atRest tells whether nothing is under way in the pipelines that run.
func atRest(s *api.Status) bool {
	for i := range s.Pipelines {
		if p := &s.Pipelines[i]; p.State == "starting" || p.State == "restarting" || p.State == "running" && p.Lag > 0 {
			return false
		}
	}
	return true
}

// CheckLedger waits until an agent is at rest and its ledger's sums match. An agent that does not come to rest in the given time is judged at work. The
// error names sums that do not match, in Patience or the same for a while at rest.
func CheckLedger(status func() (api.Status, error), rest time.Duration) error {
	start, changed, last := time.Now(), time.Now(), ""
	for ; ; time.Sleep(pollEvery) {
		wrong, still := "", false
		if s, err := status(); err != nil {
			wrong = err.Error()
		} else {
			wrong, still = strings.Join(LedgerErrors(&s), "; "), atRest(&s)
		}
		if wrong != last || !still {
			changed, last = time.Now(), wrong
		}
		switch waited := time.Since(start); {
		case wrong == "" && (still || waited > rest):
			return nil
		case waited > max(rest, Patience), still && time.Since(changed) > ledgerStill:
			return errors.New("the ledger does not match: " + wrong)
		}
	}
}

// ledgerStill is how long sums at rest stay wrong when they are.
const ledgerStill = 10 * time.Second

// CheckLedgerAt is CheckLedger for the agent behind a socket.
func CheckLedgerAt(ctx context.Context, socket string, rest time.Duration) error {
	c := api.Dial(socket)
	return CheckLedger(func() (api.Status, error) { return c.Status(ctx) }, rest)
}
