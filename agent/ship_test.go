//go:build !nocentral

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/space"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/takeover"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
)

// shippedTo waits until the records up to a position are in the central store.
func (b *bench) shippedTo(position uint64) {
	b.t.Helper()
	b.await("records are shipped", func(s *api.Status) bool {
		c := s.Pipelines[0].Central
		return c != nil && c.Shipped >= position && c.LossSeconds >= 0
	})
}

// lostDevice is a device that is gone for good: its state in the store has records 1 to 55, what it shipped goes to 95, and what it has delivered to 120; or to 55, when its upstream was away. more is of
// the section central.
func lostDevice(t *testing.T, away bool, more string) *bench {
	old := newBench(t, pipelineNamed("p", "log"))
	off := old.away()
	old.text = "board_serial: one\n" + old.text + "central: {url: \"file://" + old.dir + "/central\", interval: 1h, ship_journal: 1s" + more + "}\n"
	old.start()
	old.put(1, 55)
	old.await("the first rows are out", at(55))
	old.halt()
	old.start() // and uploads what it stands at
	id, err := statedir.ParseUUID(old.agent.registry.UUID("p"))
	if err != nil {
		t.Fatal(err)
	}
	old.await("upload by this process", func(s *api.Status) bool {
		return s.Pipelines[0].Central.Position >= 55 && old.agent.offsites.pipe(id).Status(time.Now()).Age >= 0
	})
	off.Store(away)
	worked := func(position uint64) func(s *api.Status) bool {
		return func(s *api.Status) bool {
			return s.Pipelines[0].Position >= position && s.Pipelines[0].Lag == 0 && (away || settled(s))
		}
	}
	old.put(56, 95)
	old.await("more rows are made", worked(95))
	old.shippedTo(95)
	records := filepath.Join(old.dir, "central", "test", "records")
	if err := os.Rename(records, records+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(records, nil, 0o400); err != nil { // the store takes no more
		t.Fatal(err)
	}
	old.put(96, 120)
	old.await("rows that are shipped no more are made", worked(120))
	old.die()
	off.Store(false)
	if err := errors.Join(os.Remove(records), os.Rename(records+".aside", records)); err != nil {
		t.Fatal(err)
	}
	return old
}

// die ends a run without a look at anything.
func (b *bench) die() {
	b.t.Helper()
	b.stop()
	if err := <-b.done; err != nil && !errors.Is(err, context.Canceled) {
		b.t.Fatal(err)
	}
}

// replace takes the device's place, after a crash behind each step.
func (b *bench) replace(trusted takeover.Trusted) (*bench, *takeover.TakenOver) {
	b.t.Helper()
	twin := b.twin()
	crash := errors.New("crash")
	for n := 0; ; n++ {
		steps := 0
		told, err := b.takeOver(twin, trusted, func(string) error {
			if steps++; steps > n {
				return crash
			}
			return nil
		})
		if err == nil {
			if n < 7 {
				b.t.Errorf("%d steps", n)
			}
			return twin, told
		}
		if !errors.Is(err, crash) {
			b.t.Fatal(err)
		}
	}
}

// takeOver has twin take the device's place, by what the device's store has.
func (b *bench) takeOver(twin *bench, trusted takeover.Trusted, fault func(string) error) (*takeover.TakenOver, error) {
	twin.text = strings.ReplaceAll(twin.text, twin.dir+"/central", b.dir+"/central")
	cfg := twin.parse()
	from, err := takeover.OpenLegacy(cfg, takeover.FromCentral, trusted)
	if err != nil {
		b.t.Fatal(err)
	}
	return takeover.Run(b.t.Context(), cfg, takeover.Options{Gateway: "test", From: from, Fault: fault})
}

// TestShippedRecordsAreReplayed: what a device has shipped behind its last upload is worked on by its replacement, as the device itself had; what it had delivered of that does not come twice; lost is
// what came behind. A replacement that opens its streams before it has made those results sends them again.
func TestShippedRecordsAreReplayed(t *testing.T) {
	for _, unheld := range []bool{false, true} {
		old := lostDevice(t, false, "")
		twin, told := old.replace(takeover.Trusted{Any: true})
		p := told.Pipelines[0]
		if p.State < 55 || p.State >= 95 || p.Loss.Position < 95 || p.Loss.After != p.Loss.Position || p.Loss.Position >= 120 {
			t.Fatalf("%+v, %+v", p, p.Loss)
		}
		twin.options.replayUnheld = unheld
		twin.start()
		twin.die() // maybe in the midst of it
		twin.start()
		twin.put(201, 260)
		twin.await("the replacement delivers", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= p.Loss.Position+60 })
		twin.halt()
		twin.start()
		twin.put(261, 309)
		twin.await("and goes on", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= p.Loss.Position+109 })
		twin.halt()
		list := twin.sequences("now")
		var ids []int
		for _, s := range list {
			ids = append(ids, s.row.ID)
		}
		if unheld {
			if slices.Equal(ids[:min(len(ids), 130)], append(idsFrom(1, 120), idsFrom(201, 210)...)) {
				t.Errorf("streams that are opened too early are not found: %v", ids)
			}
			continue
		}
		if want := append(idsFrom(1, 120), idsFrom(201, 309)...); !slices.Equal(ids, want) {
			t.Errorf("upstream holds %v", ids)
		}
		own, least := list[120].generation, identity.GenerationsOf(twin.agent.identity.Major)
		if s := list[120]; own != least && own != least+1 || s.seq != 96 { // a restore that was cut short has begun one: the next takes another
			t.Errorf("the first row of its own is %d of generation %d", s.seq, s.generation)
		}
		const base = 1767225600000
		seen := map[int64]int{}
		for _, s := range twin.sequences("later") {
			seen[s.row.Start-base]++
			if s.row.Partial != (s.generation == own) {
				t.Errorf("window %d of generation %d: partial is %v", s.row.Start-base, s.generation, s.row.Partial)
			}
		}
		if seen[50] != 1 || seen[60] != 1 || seen[80] != 1 || seen[90] != 2 || seen[200] != 1 { // 90 was open behind the last shipped record
			t.Errorf("windows %v", seen)
		}
	}
}

// TestShippedRecordsThatWereNotDelivered: the replacement delivers what the device before had shipped and could not send; windows that close within them lack nothing.
func TestShippedRecordsThatWereNotDelivered(t *testing.T) {
	twin, told := lostDevice(t, true, "").replace(takeover.Trusted{Any: true})
	last := told.Pipelines[0].Loss.After
	twin.wantWhole("before the first start") // the journal begins with the shipped records
	twin.start()
	twin.put(201, 260)
	twin.await("the replacement delivers", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= last+60 })
	twin.halt()
	own := identity.GenerationsOf(twin.agent.identity.Major)
	var ids []int
	for i, s := range twin.sequences("now") {
		ids = append(ids, s.row.ID)
		if want := uint64(1); s.seq != uint64(i+1) || s.row.ID <= 55 && s.generation != want || s.row.ID > 55 && s.generation != own {
			t.Errorf("row %d is %d of generation %d", s.row.ID, s.seq, s.generation)
		}
	}
	if want := append(idsFrom(1, 95), idsFrom(201, 260)...); !slices.Equal(ids, want) {
		t.Errorf("upstream holds %v", ids)
	}
	const base = 1767225600000
	seen := map[int64]int{}
	for _, s := range twin.sequences("later") {
		at := s.row.Start - base
		if seen[at]++; s.row.Partial != (at >= 90) || at > 0 && at < 90 && s.row.N != 10 {
			t.Errorf("window %d of generation %d: %d records, partial is %v", at, s.generation, s.row.N, s.row.Partial)
		}
	}
	for at := int64(0); at <= 90; at += 10 {
		if seen[at] != 1 {
			t.Errorf("window %d came %d times", at, seen[at])
		}
	}
}

// TestFailuresOfShippingAreToldOnce: a store that is away for a day is one line in the log for each kind of failure, and is told anew when it was there meanwhile.
func TestFailuresOfShippingAreToldOnce(t *testing.T) {
	var log bytes.Buffer
	s := &shipping{agent: &Agent{log: slog.New(slog.NewTextHandler(&log, nil))}}
	for i := range 100 {
		s.tell(fmt.Errorf("ship records %d to %d: refused", i, i+9))
		s.tell(fmt.Errorf("ship records %d to %d: deadline exceeded", i, i+9))
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || s.err != "ship records 99 to 108: deadline exceeded" {
		t.Errorf("%d lines, the status says %q", n, s.err)
	}
	s.tell(nil)
	s.tell(errors.New("ship records 1 to 2: refused"))
	s.tell(nil)
	if n := strings.Count(log.String(), "\n"); n != 3 || s.err != "" {
		t.Errorf("%d lines, the status says %q", n, s.err)
	}
}

func idsFrom(first, last int) (all []int) {
	for i := first; i <= last; i++ {
		all = append(all, i)
	}
	return all
}

// TestJournalIsWrittenAsItWas: positions, stamps and positions that were left out; a journal that takes no more says up to where it has them.
func TestJournalIsWrittenAsItWas(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	blocks := []*pipeline.Block{}
	stamps := []pipeline.Stamp{}
	for i, at := range []pipeline.Position{40, 43, 50, 55} {
		blk := &pipeline.Block{First: at, Last: at + 2}
		s := pipeline.Stamp{Elapsed: int64(i) * 1e9, Wall: int64(1000 + i), Trusted: i%2 == 1}
		for n := range pipeline.Position(3) {
			blk.Entries = append(blk.Entries, pipeline.Entry{Pos: at + n, Stamp: s, Kind: pipeline.EntryMessage, QoS: 1, Source: "s", Topic: []byte("t"), Payload: make([]byte, 1<<10)})
		}
		blocks, stamps = append(blocks, blk), append(stamps, s)
	}
	blocks, stamps = append(blocks, &pipeline.Block{First: 58, Last: 60}), append(stamps, stamps[3])
	each := func(take func(*pipeline.Block, pipeline.Stamp) error) error {
		for i := range blocks {
			if err := take(blocks[i], stamps[i]); err != nil {
				return err
			}
		}
		return nil
	}
	o := journal.Options{Dir: t.TempDir(), Config: space.Journal(b.parse())}
	last, full, err := takeover.WriteJournal(t.Context(), o, each, 70)
	if err != nil || full || last != 60 {
		t.Fatalf("up to %d, full %v, %v", last, full, err)
	}
	o.Stamp = func() pipeline.Stamp { return pipeline.Stamp{Elapsed: time.Hour.Nanoseconds()} }
	j, _, err := journal.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if s := j.LastStamp(); s.Elapsed != stamps[3].Elapsed {
		t.Errorf("the clock goes on from %+v", s)
	}
	got := map[pipeline.Position]pipeline.Stamp{}
	if err := j.Scan(40, func(e *pipeline.Entry) error {
		if e.Kind == pipeline.EntryMessage {
			got[e.Pos] = e.Stamp
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, blk := range blocks[:4] {
		for _, e := range blk.Entries {
			if got[e.Pos] != stamps[i] {
				t.Errorf("record %d has %+v, want %+v", e.Pos, got[e.Pos], stamps[i])
			}
		}
	}
	if pos, err := j.Append(&blocks[0].Entries[0]); err != nil || pos != 71 || len(got) != 12 {
		t.Errorf("%d records, the next one is %d, %v", len(got), pos, err)
	}
	small := journal.Options{FS: disk.OS, Dir: t.TempDir(), Config: o.Config}
	small.MaxBytes, small.ReserveBytes, small.SegmentBytes, small.Compress = 1<<20, 0, 256<<10, false
	for i := range 3000 {
		blk := &pipeline.Block{First: pipeline.Position(61 + i), Last: pipeline.Position(61 + i)}
		blk.Entries = []pipeline.Entry{{Pos: blk.First, Kind: pipeline.EntryMessage, Payload: make([]byte, 1<<10)}}
		blocks, stamps = append(blocks, blk), append(stamps, stamps[3])
	}
	if last, full, err = takeover.WriteJournal(t.Context(), small, each, 0); err != nil || !full || last < 100 || last >= 3060 {
		t.Errorf("a small journal: up to %d, full %v, %v", last, full, err)
	}
}
