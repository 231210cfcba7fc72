//go:build !nocentral

package agent

import (
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/central"
)

// newCentralApplyBench is an apply bench with a central store.
func newCentralApplyBench(t *testing.T) *bench {
	b := newApplyBench(t)
	b.text = "central: {url: \"file://" + b.dir + "/central\", interval: 1s}\n" + b.text
	return b
}

// fetchOf is what a device without anything gets of a pipeline.
func (b *bench) fetchOf(name string) (file string, r *offsite.Report) {
	b.t.Helper()
	cfg := b.parse()
	bucket, err := offsite.OpenCentral(cfg, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer bucket.Close()
	key, err := offsite.SigningKey(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	f := &central.Fetcher{Gateway: "test", Bucket: bucket, Trust: central.Trust{key.Public().(ed25519.PublicKey)}}
	id, err := statedir.ParseUUID(b.agent.registry.UUID(name))
	if err != nil {
		b.t.Fatal(err)
	}
	file = filepath.Join(b.t.TempDir(), "fetched.savepoint")
	if r, err = offsite.Fetch(b.t.Context(), f, central.UUID(id), disk.OS, file); err != nil {
		b.t.Fatal(err)
	}
	return file, r
}

func uploadedTo(n int, position uint64) func(*api.Status) bool {
	return func(s *api.Status) bool {
		return len(s.Pipelines) > n && s.Pipelines[n].Central != nil && s.Pipelines[n].Central.Position >= position && s.Pipelines[n].Central.Pending == 0
	}
}

// TestProbationIsNotUploaded: what another device would go on with is of committed plans (RULES 22, 25). A plan on probation works and makes checkpoints, none of which leaves; gone back from, the uploads
// go on with the old plan's, and hold what a savepoint holds. hasty is the fault.
func TestProbationIsNotUploaded(t *testing.T) {
	for _, hasty := range []bool{false, true} {
		b := newCentralApplyBench(t)
		b.text = strings.Replace(b.text, "probation: 200ms", "probation: 1h", 1)
		b.options.hasty = hasty
		b.start()
		b.put(1, 95)
		b.await("uploads", func(s *api.Status) bool { return at(95)(s) && uploadedTo(0, 95)(s) && uploadedTo(1, 95)(s) })
		done := b.asked(otherRows(b))
		b.await("probation", onProbation)
		b.put(96, 120)
		b.await("the new plan works, and the other pipeline is uploaded", func(s *api.Status) bool {
			return s.Pipelines[0].Checkpoint.Position >= 120 && uploadedTo(1, 120)(s)
		})
		if hasty {
			b.await("the plan on probation is uploaded", uploadedTo(0, 120))
		}
		_, r := b.fetchOf("p")
		if onTrial := strings.Contains(string(r.Head.Plan), "even"); onTrial != hasty || !hasty && r.Head.Position != 95 {
			t.Errorf("hasty %v: the upload stands at %d, of the plan on probation: %v", hasty, r.Head.Position, onTrial)
		}
		if hasty {
			b.stop()
			<-b.done
			continue
		}
		if err := b.agent.named("p").ask(t.Context(), command{fail: errors.New("planted")}); err != nil {
			t.Fatal(err)
		}
		if out := <-done; out.Result != api.ApplyGoneBack {
			t.Fatalf("%+v", out)
		}
		b.put(121, 140)
		b.await("the old plan is uploaded", func(s *api.Status) bool { return at(140)(s) && uploadedTo(0, 140)(s) })
		file, _ := b.fetchOf("p")
		info := b.savepoint(false)
		if got, want := savepointText(t, file), savepointText(t, info.File); got != want {
			t.Errorf("fetched is\n%s\nthe savepoint is\n%s", got, want)
		}
		b.halt()
		b.wantIDs("p", [2]int{1, 140})
	}
}

// TestApplyWithACentralStore: a pipeline that comes is uploaded once it is in force, one that changes is uploaded under its new plan, one that goes has no place any more; what it has in the store
// stays. One that comes and is gone back from leaves nothing.
func TestApplyWithACentralStore(t *testing.T) {
	b := newCentralApplyBench(t)
	b.start()
	b.put(1, 50)
	b.await("uploads", func(s *api.Status) bool { return at(50)(s) && uploadedTo(0, 50)(s) && uploadedTo(1, 50)(s) })
	places := func(names ...string) {
		t.Helper()
		o := b.agent.offsites
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, n := range names {
			if id, err := statedir.ParseUUID(b.agent.registry.UUID(n)); err != nil || o.pipes[id] == nil {
				t.Errorf("%s has no place in the central store, %v", n, err)
			}
		}
		if len(o.pipes) != len(names) {
			t.Errorf("%d places, want those of %v", len(o.pipes), names)
		}
	}
	id, err := statedir.ParseUUID(b.agent.registry.UUID("q"))
	if err != nil {
		t.Fatal(err)
	}
	r := strings.ReplaceAll(pipelineNamed("r", "bbolt"), "URL", b.url)
	q := strings.ReplaceAll(pipelineNamed("q", "log"), "URL", b.url)
	b.agent.applier.sinkWait = 0
	out, _ := b.apply(strings.Replace(b.text, q, strings.ReplaceAll(r, b.url, "http://127.0.0.1:1"), 1), api.ApplyOptions{})
	if out.Result != api.ApplyGoneBack {
		t.Fatalf("%+v", out)
	}
	b.await("q is back", settled)
	places("p", "q")
	b.agent.applier.sinkWait = gateWait
	b.wantApplied(strings.Replace(withEvens(b.text, b.url), q, r, 1))
	b.put(51, 90)
	b.await("uploads", func(s *api.Status) bool { return at(90)(s) && uploadedTo(0, 90)(s) && uploadedTo(1, 90)(s) })
	places("p", "r")
	if s := b.agent.centralStatus(id); s != nil {
		t.Errorf("the pipeline that went is at %+v", s)
	}
	if _, up := b.fetchOf("p"); !strings.Contains(string(up.Head.Plan), "even") {
		t.Error("the upload is of the old plan")
	}
	if out, _ := b.apply(strings.Replace(b.text, "interval: 1s}", "interval: 2s}", 1), api.ApplyOptions{}); out.Result != api.ApplyRefused || !strings.Contains(out.Error, "central changed: needs a restart") {
		t.Errorf("%+v", out)
	}
	b.halt()
	b.wantIDs("r", [2]int{1, 90})
}

// TestLooksAskNoCentralStore: the store is not there, and no key has been made.
func TestLooksAskNoCentralStore(t *testing.T) {
	b := newApplyBench(t)
	b.start()
	b.put(1, 20)
	b.await("delivery", at(20))
	b.halt()
	b.text = "central: {url: \"file://" + b.dir + "/central\", interval: 1s}\n" + b.text
	b.wantWhole("with a central store")
	if left, _ := filepath.Glob(filepath.Join(b.dir, "central")); len(left) > 0 {
		t.Errorf("%v was made", left)
	}
}
