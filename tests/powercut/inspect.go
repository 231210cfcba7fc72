//go:build !arm && !386

package powercut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// claims are what the agent has told others, before an image was taken.
type claims struct {
	acked      map[int]bool      // messages that the broker may forget
	savepoints []string          // files
	durable    uint64            // the journal's last record
	checkpoint map[string]uint64 // per pipeline
}

// settle is how long an agent on an image may take to deliver what it has.
const settle = rig.Patience

// inspect mounts an image and lets fsck look at it. The host is closed again.
func inspect(w *world, img *volatiledisk.Image, c claims) (problems []string) {
	h, err := mount(w.shelf, volatiledisk.FromImage(img), 0, w.dir, w.v.mount)
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { w.note(h.close()) }()
	return h.fsck(w, c)
}

// fsck runs weir fsck on a mounted image: it must find nothing that is damaged, and all that was told.
func (h *host) fsck(w *world, c claims) []string {
	if err := os.WriteFile(h.config(), []byte(fill(h.state(), "127.0.0.1:1", w.far.addr(), w.v.qos)), 0o600); err != nil {
		return []string{err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), settle)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "fsck", "-o", "json", "-c", h.config()).Output()
	var report agent.CheckReport
	if jerr := json.Unmarshal(out, &report); jerr != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			jerr = fmt.Errorf("%w: %.300s", jerr, exit.Stderr)
		}
		return []string{fmt.Sprintf("fsck: %v (%v)", err, jerr)}
	}
	var problems []string
	for _, d := range append(report.Damage, report.Stops...) {
		problems = append(problems, "fsck: "+d)
	}
	if err != nil && len(problems) == 0 {
		problems = append(problems, fmt.Sprintf("fsck: %v", err))
	}
	return append(problems, c.compare(report.Lines)...)
}

// fork starts the agent on an image, against a copy of the receiver of that instant and without a broker: what was acknowledged must come out of the image alone.
func fork(w *world, img *volatiledisk.Image, copied string, c claims, published int) (problems []string) {
	defer os.Remove(copied)
	h, err := mount(w.shelf, volatiledisk.FromImage(img), 0, w.dir, w.v.mount)
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { w.note(h.close()) }()
	if problems = h.fsck(w, c); len(problems) > 0 {
		return problems
	}
	f, err := newFar(copied, 0)
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { w.note(f.close()) }()
	log := filepath.Join(w.dir, "fork.log")
	os.Remove(log)
	child, err := start(h, log, fill(h.state(), "127.0.0.1:1", f.addr(), w.v.qos), w.v.env)
	if err != nil {
		return []string{err.Error()}
	}
	defer child.Kill()
	ctx := context.WithoutCancel(w.t.Context())
	status, err := rig.AwaitStatus(ctx, h.socket(), child, w.v.patience, "all is delivered", func(s *api.Status) bool { return delivered(s) || failed(s) })
	if err != nil || failed(&status) {
		b, _ := os.ReadFile(log)
		problems = append(problems, fmt.Sprintf("an agent on the image: %.1500v, failed %v\n%s", err, failed(&status), b[max(0, len(b)-1500):]))
	}
	must := func(n int) bool { return c.acked[n] }
	if len(problems) == 0 {
		problems = append(problems, deadLetters(ctx, h.socket(), published, must)...)
	}
	if err := child.Stop(rig.Patience); err != nil {
		problems = append(problems, fmt.Sprintf("stop: %v", err))
	}
	verdicts, err := judge(f.held, demand{messages: published, must: must})
	if err != nil {
		problems = append(problems, err.Error())
	}
	sinks := map[string]bool{}
	for _, v := range verdicts {
		if sinks[v.Stream] {
			problems = append(problems, "there are two streams of sink "+v.Stream)
		}
		sinks[v.Stream] = true
		if !v.OK() {
			problems = append(problems, v.String())
		}
	}
	return problems
}

// compare asks whether what fsck found on a disk is all that was told of it.
func (c *claims) compare(lines []string) (problems []string) {
	checkpoint, durable := map[string]uint64{}, uint64(0)
	for _, line := range lines {
		var name string
		var id, pos, records, first uint64
		if n, _ := fmt.Sscanf(strings.Replace(line, ":", " ", 1), "pipeline %s checkpoint %d at position %d is whole", &name, &id, &pos); n == 3 {
			checkpoint[name] = max(checkpoint[name], id)
		}
		if n, _ := fmt.Sscanf(line, "journal: %d records, positions %d to %d", &records, &first, &pos); n == 3 {
			durable = pos
		}
		for _, name := range c.savepoints {
			if strings.HasPrefix(line, "savepoint "+name+":") {
				checkpoint[name] = 1
			}
		}
	}
	if durable < c.durable {
		problems = append(problems, fmt.Sprintf("the journal ends at %d, %d was durable", durable, c.durable))
	}
	for name, told := range c.checkpoint {
		if checkpoint[name] < told {
			problems = append(problems, fmt.Sprintf("pipeline %s has checkpoint %d, %d was reported", name, checkpoint[name], told))
		}
	}
	for _, name := range c.savepoints {
		if checkpoint[name] == 0 {
			problems = append(problems, "the savepoint "+name+" was promised and is not there")
		}
	}
	return problems
}

// delivered tells whether every pipeline runs and has nothing to do.
func delivered(s *api.Status) bool {
	for _, p := range s.Pipelines {
		if p.State != "running" || p.Lag > 0 {
			return false
		}
		for _, k := range p.Sinks {
			if k.Pending > 0 {
				return false
			}
		}
	}
	return len(s.Pipelines) == len(letters)
}

func failed(s *api.Status) bool {
	for _, p := range s.Pipelines {
		if p.State == "failed" {
			return true
		}
	}
	return false
}

// deadLetters asks for each bad message below messages that must says: kept once by each pipeline that reads it; no other more often.
func deadLetters(ctx context.Context, socket string, messages int, must func(int) bool) (problems []string) {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for pipeline, parity := range letters {
		kept := map[string]int{}
		after := uint64(0)
		for more := true; more; {
			more = false
			err := api.Dial(socket).DeadLetters(ctx, pipeline, api.DeadQuery{After: after, Limit: api.DeadLettersMax}, func(l api.DeadLetter) error {
				var letter struct{ Payload string }
				if err := json.Unmarshal(l.Letter, &letter); err != nil {
					return err
				}
				after, more = l.Seq, true
				kept[letter.Payload]++
				return nil
			})
			if err != nil {
				return append(problems, fmt.Sprintf("dead letters of %s: %v", pipeline, err))
			}
		}
		lost, twice := 0, 0
		for n := range messages {
			if !bad(n) || parity >= 0 && n%2 != parity {
				continue
			}
			got := kept[string(payload(n))]
			if got == 0 && must(n) {
				lost++
			}
			twice += max(0, got-1)
		}
		if lost+twice > 0 {
			problems = append(problems, fmt.Sprintf("dead letters of %s: lost %d duplicate %d", pipeline, lost, twice))
		}
	}
	return problems
}
