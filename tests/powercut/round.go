//go:build !arm && !386

package powercut

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// variant is a kind of round.
type variant struct {
	name       string
	mount      string // options of ext4
	qos, rate  int
	images     int // crash points by image
	cuts       int // crash points by going on
	flushTakes time.Duration
	slowness   time.Duration // of the receiver below /slow
	env        []string
	patience   time.Duration // for an agent on an image
	untilBad   bool          // a planted fault: it is over with the first point that is bad
	tally      *tally
}

// tally sums up rounds.
type tally struct {
	images, cuts, bad, empty, messages int
	unflushed                          int64
	took                               time.Duration
}

func (t *tally) cut(unflushed int64) {
	t.cuts++
	t.point(unflushed)
}

func (t *tally) point(unflushed int64) {
	t.unflushed += unflushed
	if unflushed == 0 {
		t.empty++
	}
}

// run makes a round; the problems are those of each crash point, and of the end.
func (v variant) run(t *testing.T, seed uint64) (problems []string) {
	began := time.Now()
	w := newWorld(t, v, seed)
	defer func() {
		v.tally.messages += int(w.published.Load())
		v.tally.took += time.Since(began)
	}()
	for n, image := range w.order() {
		var found []string
		w.allowed.Add(int64(v.rate))
		if n%5 == 2 {
			w.save()
		}
		if image {
			found = w.image()
		} else {
			found = w.cut()
		}
		if len(found) > 0 {
			v.tally.bad++
			problems = append(problems, fmt.Sprintf("point %d, image %v: %s", n, image, strings.Join(found, "\n    ")))
			if v.untilBad || len(problems) > 3 {
				close(w.stop)
				return problems
			}
		}
	}
	if found := w.finish(); len(found) > 0 {
		v.tally.bad++
		problems = append(problems, found...)
	}
	return problems
}

// order mixes images and cuts.
func (w *world) order() (images []bool) {
	for i := range w.v.images + w.v.cuts {
		images = append(images, i < w.v.images)
	}
	w.random.Shuffle(len(images), func(i, j int) { images[i], images[j] = images[j], images[i] })
	return images
}

// image takes an image at a random instant and looks at it while the gateway goes on.
func (w *world) image() (problems []string) {
	c := w.claims()
	c.checkpoint = map[string]uint64{}
	if s, err := api.Dial(w.host.socket()).Status(w.t.Context()); err == nil { // else it is about to start, and has told nothing
		c.durable = s.Journal.Durable
		for _, p := range s.Pipelines {
			c.checkpoint[p.Name] = p.Checkpoint.ID
		}
	}
	cut := w.drawCut()
	var img *volatiledisk.Image
	var unflushed int64
	copied := filepath.Join(w.dir, "fork.db")
	w.at(func() {
		w.must(w.far.during(copied, func() {
			c.acked, c.savepoints = w.tap.snapshot(), w.claims().savepoints
			unflushed = w.host.plug.disk.Counters().Unflushed
			img = w.host.plug.disk.Image(cut)
		}))
	})
	w.v.tally.images++
	w.v.tally.point(unflushed)
	problems = fork(w, img, copied, c, int(w.published.Load()))
	if len(problems) > 0 {
		problems = append([]string{fmt.Sprintf("cut %v of %d requests, %d messages acknowledged", cut, unflushed, len(c.acked))}, problems...)
	}
	return problems
}

// finish publishes what closes the windows, waits until all has arrived, and judges.
func (w *world) finish() (problems []string) {
	close(w.stop)
	w.feeding.Wait()
	n := int(w.published.Load())
	for i, topic := range []string{"t/a/closing", "t/b/closing"} {
		w.must(w.publisher.Publish(w.t.Context(), topic, false, closing(n+i)))
	}
	w.must(w.publisher.Flush(w.t.Context()))
	w.far.slowness.Store(0)
	_, err := rig.AwaitStatus(w.t.Context(), w.host.socket(), w.agent, w.v.patience, "all is delivered", func(s *api.Status) bool {
		return w.ackedCount() >= n+2 && delivered(s) || failed(s)
	})
	if err != nil {
		w.dump()
		problems = append(problems, "end: "+err.Error())
	}
	all := func(int) bool { return true }
	problems = append(problems, deadLetters(w.t.Context(), w.host.socket(), n, all)...)
	if err := rig.CheckLedgerAt(w.t.Context(), w.host.socket(), 10*time.Second); err != nil {
		problems = append(problems, "end: "+err.Error())
	}
	w.saving.Wait()
	if err := w.agent.Stop(rig.Patience); err != nil {
		problems = append(problems, fmt.Sprintf("end: stop: %v", err))
	}
	problems = append(problems, w.host.fsck(w, w.claims())...)
	verdicts, err := judge(w.far.held, demand{messages: n, must: all, all: true})
	w.must(err)
	if len(verdicts) != streams {
		problems = append(problems, fmt.Sprintf("end: %d streams arrived, want %d", len(verdicts), streams))
	}
	for _, v := range verdicts {
		if !v.OK() {
			problems = append(problems, "end: "+v.String())
		}
	}
	return problems
}
