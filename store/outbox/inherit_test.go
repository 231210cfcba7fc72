package outbox

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// inheriting is a stream in generation 7 that begins behind 10, in which results 11 to 15 of generation 2 wait and 16 to 20 are new.
func inheriting(t *testing.T, o StreamOptions) (*Outbox, *Stream) {
	t.Helper()
	box, _, err := Open(Options{FS: disk.OS, Dir: t.TempDir(), Config: fullConfig()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	s, err := box.Stream("k", o)
	if err != nil {
		t.Fatal(err)
	}
	inc := Incarnation{Major: 2}
	_, err = box.Adopt(t.Context(), pipeline.SinkMark{UID: "k", Generation: 7, Seq: 10}, inc, func(each func(*pipeline.Result) error) error {
		for seq := uint64(11); seq <= 15; seq++ {
			if err := each(&pipeline.Result{Seq: seq, Last: seq, Chain: seq, Kind: pipeline.ResultData, Payload: []byte("{}")}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = box.Cut(t.Context(), []pipeline.SinkMark{{UID: "k", Generation: 7, Seq: 15, Chain: 15}}, inc)
	}
	for seq := uint64(16); seq <= 20 && err == nil; seq++ {
		err = s.Emit(t.Context(), []pipeline.Result{{Seq: seq, Last: seq, Chain: seq, Kind: pipeline.ResultData, Payload: []byte("{}")}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return box, s
}

// TestInheritedResultsAreNotSentAgain: upstream is still in the generation before, and holds more there than waits here. What waits of that generation is confirmed, what is new is sent,
// though upstream has its numbers too.
func TestInheritedResultsAreNotSentAgain(t *testing.T) {
	for _, c := range []struct {
		inherited       Inherited
		generation, seq uint64
		first           uint64 // that is sent
	}{
		{Inherited{2, 15}, 2, 18, 16},
		{Inherited{2, 15}, 2, 13, 14},
		{Inherited{2, 15}, 2, 4, 11},
		{Inherited{2, 15}, 1, 18, 11}, // another generation: other results
		{Inherited{2, 15}, 7, 17, 18}, // its own
		{Inherited{}, 2, 18, 11},
	} {
		_, s := inheriting(t, StreamOptions{Mode: ImmediateCommit, Inherited: c.inherited})
		if _, _, _, err := s.Seek(c.generation, c.seq, c.seq); err != nil {
			t.Fatal(err)
		}
		got, err := s.Next(t.Context(), 100, 1<<20)
		if err != nil || got[0].Seq != c.first || got[len(got)-1].Seq != 20 {
			t.Errorf("upstream at %d of generation %d: sent are %d to %d, want from %d; %v", c.seq, c.generation, got[0].Seq, got[len(got)-1].Seq, c.first, err)
		}
	}
}

// TestRememberOutlivesARestart: what upstream has confirmed is known again without asking it.
func TestRememberOutlivesARestart(t *testing.T) {
	for _, remember := range []bool{true, false} { // without it, that is not so: the test would find it missing
		dir := t.TempDir()
		fillDisk(t, dir, 1<<20)
		box, _, err := Open(Options{FS: disk.OS, Dir: dir, Config: fullConfig()})
		if err != nil {
			t.Fatal(err)
		}
		s, err := box.Stream("k", StreamOptions{Mode: ImmediateCommit})
		if err == nil {
			err = s.Confirm(700, 0)
		}
		if err == nil && remember {
			err = box.Remember(t.Context())
		}
		if err == nil && remember {
			err = box.Remember(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Close(); err != nil {
			t.Fatal(err)
		}
		if box, _, err = Open(Options{FS: disk.OS, Dir: dir, Config: fullConfig()}); err != nil {
			t.Fatal(err)
		}
		w, ok := box.Pin().Waiting("k")
		if !ok || (w.Confirmed == 700) != remember {
			t.Errorf("remembered %v: confirmed is %d", remember, w.Confirmed)
		}
		if err := box.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
