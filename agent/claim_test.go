//go:build !nocentral

package agent

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/takeover"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
	"github.com/weirstream/weir/uplink/central"
)

// claimed is a central store in memory.
func claimed(b *bench) *buckettest.Memory {
	m := &buckettest.Memory{}
	b.options.claims = &offsite.BucketClaims{Bucket: m, Gateway: "test", Wall: func() int64 { return 1 }}
	return m
}

func TestRule27_FencedByTheClaim(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	m := claimed(b)
	b.start()
	b.put(1, 20)
	b.await("the first rows are out", at(20))
	if _, err := central.TakeClaim(t.Context(), m, "test", "another", "", 1, 1); err != nil {
		t.Fatal(err)
	}
	b.agent.checkClaim(t.Context()) // one poll
	s := b.await("the device is fenced", fenced)
	if n := s.Identity.Stranded; n.Results != 0 || n.Records != 0 {
		t.Errorf("all was delivered, %+v is left", n)
	}
	if err := b.agent.mayConnect(t.Context()); !errors.Is(err, errFenced) {
		t.Errorf("a fenced device may connect: %v", err)
	}
	b.end()
	inc, err := func() (uplink.Incarnation, error) {
		return retake(t.Context(), b.parse(), b.options.claims, settleApply)
	}()
	if err != nil || inc.Major != 3 {
		t.Fatal(inc, err)
	}
	if c, _, err := central.ReadClaim(t.Context(), m, "test"); err != nil || c.Major != 3 {
		t.Fatal(c, err)
	}
	b.start()
	b.put(21, 30)
	b.await("it works again", at(30))
	ids, _ := b.ids("p", "now")
	want(t, "rows upstream", ids, 1, 30)
	b.halt()
}

// TestRule28_CentralGivesAMovedStateItsMajor: no flag is needed.
func TestRule28_CentralGivesAMovedStateItsMajor(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	plain := b.text
	b.text = "board_serial: two\n" + plain
	claimed(b)
	b.start()
	b.put(1, 40)
	b.await("the first rows are out", at(40))
	b.halt()
	b.text = "board_serial: one\n" + plain
	b.start()
	if got := b.agent.incarnation().String(); got != "2.0" {
		t.Errorf("incarnation %s", got)
	}
	b.put(41, 50)
	b.await("it goes on", at(50))
	ids, _ := b.ids("p", "now")
	want(t, "rows upstream", ids, 1, 50)
	b.halt()
}

// TestRule27_ReplacementFromCentral: the device before uploads and goes on working; the claim that the replacement takes stops it at its next poll, though no sink of it has anything to send.
func TestRule27_ReplacementFromCentral(t *testing.T) {
	old := newBench(t, pipelineNamed("p", "log"))
	store := t.TempDir()
	old.text = "board_serial: one\ncentral: {url: \"file://" + store + "\", interval: 1s, fence_poll: 1s}\n" + old.text
	old.start()
	old.put(1, 95)
	old.await("it is uploaded", func(s *api.Status) bool {
		c := s.Pipelines[0].Central
		return at(95)(s) && c != nil && c.Position >= 95
	})
	old.put(96, 120)
	old.await("it goes on", at(120))
	up := old.await("all is out", settled).Pipelines[0].Central.Position // the uploads go on too

	twin := old.twin()
	legacy, err := takeover.OpenLegacy(twin.parse(), takeover.FromCentral, takeover.Trusted{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeover.Run(t.Context(), twin.parse(), takeover.Options{Gateway: "test", From: legacy, Fault: func(at string) error {
		if at == "fetched" {
			return errors.New("crash")
		}
		return nil
	}}); err == nil {
		t.Fatal("no crash")
	}
	old.await("the device before is fenced by the claim", fenced)
	told, err := takeover.Run(t.Context(), twin.parse(), takeover.Options{Gateway: "test", From: legacy})
	if err != nil {
		t.Fatal(err)
	}
	if told.Incarnation != "3.0" || told.Pipelines[0].Loss.Position < up { // the crash has cost a major
		t.Errorf("%+v, %+v", told, told.Pipelines[0].Loss)
	}
	kept := int(told.Pipelines[0].Loss.Position)
	old.end()
	twin.start()
	twin.put(201, 260)
	twin.await("the replacement delivers", at(60))
	twin.await("and uploads", func(s *api.Status) bool {
		return s.Pipelines[0].Central != nil && s.Pipelines[0].Central.Position >= 60
	})
	twin.halt()
	own := identity.GenerationsOf(3)
	for i, s := range twin.sequences("now") {
		if i < 120 && (s.generation != 1 || s.row.ID != i+1) || i >= 120 && (s.generation != own || s.row.ID != 201+i-120 || s.seq != uint64(kept+1+i-120)) {
			t.Errorf("row %d is %d of generation %d", s.row.ID, s.seq, s.generation)
		}
	}
}
