package exec

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

var errPulled = errors.New("the plug was pulled")

// upstream remembers the results of all lives by their numbers, as a receiver does, and pulls the plug behind so many.
type upstream struct {
	by    map[uint64]string
	last  uint64
	left  int // results before the plug is pulled; below 0: never
	wrong string
}

func (u *upstream) Emit(_ context.Context, rs []pipeline.Result) error {
	for _, r := range rs {
		if u.left == 0 {
			return errPulled
		}
		u.left--
		got := fmt.Sprintf("%x %d %s", r.Chain, r.Pos, r.Payload)
		if have, again := u.by[r.Seq]; again && have != got && u.wrong == "" {
			u.wrong = fmt.Sprintf("result %d was %s and is %s", r.Seq, have, got)
		}
		u.by[r.Seq] = got
		u.last = max(u.last, r.Seq)
	}
	return nil
}
func (u *upstream) Barrier(context.Context, pipeline.Barrier) error { return nil }

// midMessage gives a journal of payloads of many lines to a pipeline that dies in the middle of one, as often as pulls says, and starts again from the
// checkpoint. It tells what upstream then holds that differs from an undisturbed run. skips plants a restart that takes the message as worked off.
func midMessage(t interface{ Fatal(...any) }, entries []pipeline.Entry, saved *checkpoint, pulls []int, held int, skips bool) (wrong string) {
	want := run(t, csvSources(oneTask()), entries, len(entries), 1000, nil)["s1"]
	u := &upstream{by: map[uint64]string{}}
	for life := 0; life <= len(pulls); life++ {
		if u.left = -1; life < len(pulls) {
			u.left = pulls[life]
		}
		o := Options{
			Graph: csvSources(oneTask()), Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, Bound: pipeline.Bound{Rows: held, Bytes: 1 << 20},
			Sink: func(uid string) (pipeline.ResultSink, error) {
				if uid == "s1" {
					return u, nil
				}
				return &collect{}, nil
			},
			Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
				return &memory{entries: entries[after:], block: 9}, nil
			},
		}
		if saved != nil {
			from := *saved
			if skips && life > 0 {
				from.position++
			}
			o.Restore = &from
		}
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(context.Background()); err != nil && !errors.Is(err, errPulled) {
			t.Fatal(err)
		}
		if u.wrong != "" {
			return u.wrong
		}
	}
	first := uint64(0)
	if saved != nil {
		for _, m := range saved.sinks {
			if m.UID == "s1" {
				first = m.Seq
			}
		}
	}
	if int(u.last) != len(want) && len(want) > int(first) {
		return fmt.Sprintf("%d results, want %d", u.last, len(want))
	}
	for seq := first + 1; seq <= u.last; seq++ {
		if got := fmt.Sprintf("%d %s", seq, u.by[seq]); got != want[seq-1] {
			return fmt.Sprintf("got %s, want %s", got, want[seq-1])
		}
	}
	return ""
}

// drawnMiddle draws a journal, a checkpoint of it and where the plug is pulled.
func drawnMiddle(t *rapid.T) (entries []pipeline.Entry, saved *checkpoint, pulls []int, held int) {
	entries = linesOf(t)
	if rapid.Bool().Draw(t, "a checkpoint") {
		saved = checkpointOf(csvSources(oneTask()), entries, rapid.IntRange(1, len(entries)).Draw(t, "at"))
	}
	for range rapid.IntRange(1, 3).Draw(t, "crashes") {
		pulls = append(pulls, rapid.IntRange(0, 40).Draw(t, "results"))
	}
	return entries, saved, pulls, rapid.SampledFrom([]int{1, 3, 4096}).Draw(t, "rows held")
}

// TestACrashInTheMiddleOfAMessage: some lines of a payload are out, then the pipeline dies; the others follow, each once.
func TestACrashInTheMiddleOfAMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, saved, pulls, held := drawnMiddle(t)
		if wrong := midMessage(t, entries, saved, pulls, held, false); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

func TestAMessageTakenAsWorkedOffIsSeen(t *testing.T) {
	type middle struct {
		entries []pipeline.Entry
		saved   *checkpoint
		pulls   []int
		held    int
	}
	gen := rapid.Custom(func(t *rapid.T) (m middle) {
		m.entries, m.saved, m.pulls, m.held = drawnMiddle(t)
		return m
	})
	for seed := range 100 {
		m := gen.Example(seed)
		if m.saved == nil || int(m.saved.position) >= len(m.entries) {
			continue
		}
		if midMessage(nopFatal{}, m.entries, m.saved, m.pulls, m.held, true) != "" {
			return
		}
	}
	t.Fatal("not found")
}
