package exec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// csvSources gives both sources of a graph payloads of several lines.
func csvSources(g *plan.Graph) *plan.Graph {
	for _, s := range g.Sources {
		s.Decoders = []plan.TopicDecoder{{New: func() codec.Decoder {
			return codec.NewCSV([]codec.Field{
				{Path: pipeline.Path{{Name: "t"}}, Slot: slotTime, Kind: pipeline.Int},
				{Path: pipeline.Path{{Name: "v"}}, Slot: slotValue, Kind: pipeline.Int},
			}, -1, []string{"t", "v"}, ',', codec.Default())
		}}}
	}
	return g
}

// linesOf draws a journal whose payloads have none to six lines, some of them refused.
func linesOf(t *rapid.T) []pipeline.Entry {
	all := journalOf(t)
	base := int64(100)
	for i := range all {
		if all[i].Kind != pipeline.EntryMessage {
			continue
		}
		var b []byte
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			base += int64(rapid.SampledFrom([]int{0, 1, 2, 30}).Draw(t, "ahead"))
			switch rapid.IntRange(0, 7).Draw(t, "line") {
			case 0:
				b = append(b, " \n"...)
			case 1:
				b = append(b, "x,1\n"...)
			default:
				b = fmt.Appendf(b, "%d,%d\n", base-int64(rapid.IntRange(0, 12).Draw(t, "behind")), rapid.IntRange(0, 40).Draw(t, "value"))
			}
		}
		all[i].Payload = b
	}
	return all
}

func TestRule30_SplitPayloadsDoNotDependOnBatchesTasksOrLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := linesOf(t)
		want := run(t, csvSources(oneTask()), entries, len(entries), 1000, nil)
		g := csvSources(threeTasks())
		g.Parallelism = rapid.IntRange(1, 3).Draw(t, "lanes")
		got := run(t, g, entries, rapid.IntRange(1, 200).Draw(t, "block"), rapid.IntRange(1, 200).Draw(t, "rows"), nil)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestSplitPayloadsContinueAfterARestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := linesOf(t)
		want := run(t, csvSources(oneTask()), entries, len(entries), 1000, nil)
		cut := entries[:rapid.IntRange(0, len(entries)).Draw(t, "crash")]
		_, saved := runWithBarriers(t, csvSources(oneTask()), cut, 3, 2, nil, func(uint64) bool { return false })
		if saved == nil {
			return
		}
		got, _ := runWithBarriers(t, csvSources(oneTask()), entries, 5, 3, saved, func(uint64) bool { return false })
		for _, m := range saved.sinks {
			if d := cmp.Diff(append([]string{}, want[m.UID][m.Seq:]...), append([]string{}, got[m.UID]...)); d != "" {
				t.Fatalf("sink %s: %s", m.UID, d)
			}
		}
	})
}

// splitRun feeds entries to one source and gives what came out of it.
func splitRun(t *testing.T, s *source, entries []pipeline.Entry, rows int) (made []pipeline.Row, marks []pipeline.Mark, dead []pipeline.DeadRow) {
	t.Helper()
	for n := uint64(1); len(entries) > 0; n++ {
		part := entries[:min(rows, len(entries))]
		entries = entries[len(part):]
		in := &Input{Number: n, First: part[0].Pos, Last: part[len(part)-1].Pos, Entries: part, Ticks: cutTicks(part, nil)}
		if err := s.run(in); err != nil {
			t.Fatal(err)
		}
		made, marks, dead = append(made, s.output.rows...), append(marks, s.output.marks...), append(dead, s.out.Dead...)
	}
	return made, marks, dead
}

func lineEntries(payloads ...string) (all []pipeline.Entry) {
	for i, p := range payloads {
		all = append(all, pipeline.Entry{Pos: pipeline.Position(i + 1), Kind: pipeline.EntryMessage, Source: "a", Topic: []byte("a/b"), Payload: []byte(p)})
	}
	return all
}

func TestRecordsOfAMessageShareItsPositionAndItsMark(t *testing.T) {
	s := newSource(csvSources(oneTask()).Sources[0])
	rows, marks, dead := splitRun(t, s, lineEntries("100,1\n300,2\nx,3\n200,4", " \n\n", "", "250,5\n", "{"), 10)
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(uint64(r.Pos), r.Phase, r.Time, r.Slots[slotValue].Int()))
	}
	if want := []string{"1 2 100 1", "1 2 300 2", "1 2 200 4", "4 2 250 5"}; !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	got = nil
	for _, m := range marks {
		got = append(got, fmt.Sprint(uint64(m.Pos), m.Phase, m.Watermark))
	}
	if want := []string{"1 3 295"}; !slices.Equal(got, want) {
		t.Errorf("marks %q, want one, behind the last record of the message: %q", got, want)
	}
	if len(dead) != 2 || string(dead[0].Raw) != "x,3" || dead[0].Pos != 1 || string(dead[1].Raw) != "{" {
		t.Errorf("dead letters %+v", dead)
	}
	if want := (SourceCounters{Received: 5, Split: 3, Tombstones: 2, Dead: 2, Rows: 4}); s.counts != want {
		t.Errorf("counted %+v, want %+v", s.counts, want)
	}
}

// TestRecordsOfAMessageMakeEachOtherNotLate: a message is judged by the watermark before it. The same records in a message each are late: a source that
// moved its watermark within a message would be seen here.
func TestRecordsOfAMessageMakeEachOtherNotLate(t *testing.T) {
	late := func(payloads ...string) int {
		return len(run(t, csvSources(oneTask()), lineEntries(payloads...), 1, 1, nil)[DeadSink])
	}
	if n := late("500,1\n100,2\n", "900,4\n"); n != 0 {
		t.Errorf("%d records of one message are late", n)
	}
	if n := late("500,1\n", "100,2\n", "900,4\n"); n == 0 {
		t.Error("a record of a later message is not late")
	}
}

func TestSplitCountsBalance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSource(csvSources(oneTask()).Sources[0])
		entries := linesOf(rt)
		rows, _, dead := splitRun(t, s, entries, rapid.IntRange(1, 50).Draw(rt, "rows"))
		c := s.counts
		if c.Received+c.Split != c.Rows+c.Tombstones+c.Dead || c.Rows != uint64(len(rows)) || c.Dead != uint64(len(dead)) {
			rt.Fatalf("%+v with %d rows, %d dead letters", c, len(rows), len(dead))
		}
	})
}

func TestAPayloadOfTooManyRecordsIsOneDeadLetter(t *testing.T) {
	s := newSource(csvSources(oneTask()).Sources[0])
	rows, _, dead := splitRun(t, s, lineEntries(strings.Repeat("1,1\n", recordsMax+1), "7,7"), 10)
	if len(rows) != 1 || len(dead) != 1 || dead[0].Detail != tooManyRecords || len(dead[0].Raw) != 4*(recordsMax+1) {
		t.Fatalf("%d rows, %d dead letters", len(rows), len(dead))
	}
	if want := (SourceCounters{Received: 2, Dead: 1, Rows: 1}); s.counts != want {
		t.Errorf("counted %+v, want %+v", s.counts, want)
	}
}

// TestVersion1OfTheSourceStateIsRead: it had no count of split records.
func TestVersion1OfTheSourceStateIsRead(t *testing.T) {
	saved := checkpointAt(lineEntries(`{"t":100,"v":1}`, `{"t":200,"v":2}`), 2)
	name := "$source/a/source"
	spec := saved.specs[name]
	spec.Version = 1
	saved.specs[name] = spec
	for k, v := range saved.entries[name] {
		saved.entries[name][k] = v[:sourceStateBytes1]
	}
	p, err := New(Options{
		Graph: oneTask(), Generation: 1, Restore: saved, Deliver: func(pipeline.TaskSnapshot) {},
		Read: func(pipeline.Position) (pipeline.BlockReader, error) { return &memory{}, nil },
		Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := p.Ledger().Sources[0].SourceCounters; c != (SourceCounters{Received: 2, Rows: 2}) {
		t.Errorf("restored %+v", c)
	}
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestSplittingAllocatesNothingPerRecord(t *testing.T) {
	s := newSource(csvSources(oneTask()).Sources[0])
	s.lanes[0].decoders[0].decoder = fixedLines{}
	s.lanes[0].out.Reuse = true
	s.out.Reuse = true
	entries := lineEntries(strings.Repeat("\n", 100))
	in := &Input{Number: 1, First: 1, Last: 1, Entries: entries, Ticks: cutTicks(entries, nil)}
	if got := testing.AllocsPerRun(100, func() {
		if err := s.run(in); err != nil {
			t.Fatal(err)
		}
	}); got > 0 {
		t.Errorf("%v allocations for a message of 100 records", got)
	}
}

// fixedLines is a splitter that allocates nothing itself.
type fixedLines struct{}

func (fixedLines) Next(p []byte) (record, rest []byte) {
	if len(p) == 0 {
		return nil, nil
	}
	return p[:1], p[1:]
}

func (fixedLines) Decode(_ []byte, slots []pipeline.Value) error {
	slots[slotTime], slots[slotValue] = pipeline.IntValue(100), pipeline.IntValue(1)
	return nil
}
