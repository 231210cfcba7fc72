package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/log"
)

// TestCopyIsConsistentWhileAllGoesOn: the pipeline emits, the sender confirms and skips, results are dropped for want of room, barriers are sealed and released, and a
// copy is taken again and again. Each is an unbroken run from what is confirmed to the sequence that was asked for: emitted = confirmed + copied.
func TestCopyIsConsistentWhileAllGoesOn(t *testing.T) {
	for _, mode := range []Mode{CheckpointCommit, ImmediateCommit, AtLeastOnce} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) { copyWhileAllGoesOn(t, mode) })
	}
}

func copyWhileAllGoesOn(t *testing.T, mode Mode) {
	x := newOne(t, StreamOptions{Mode: mode, MaxBytes: 8 << 10, OnFull: DropOldest})
	const n = 4000
	for seq := uint64(1); seq <= n; seq++ { // before the goroutines: they only read it
		x.chain[seq] = seq * 31
	}
	var sealed struct {
		sync.Mutex
		seq uint64
	}
	var all sync.WaitGroup
	done := make(chan struct{})
	all.Go(func() {
		defer close(done)
		for first := uint64(1); first <= n; first += 20 {
			list := []pipeline.Result{}
			for seq := first; seq < first+20; seq++ {
				list = append(list, pipeline.Result{Kind: pipeline.ResultData, Seq: seq, Last: seq, Chain: x.chain[seq], Pos: pipeline.Position(seq), Payload: []byte(text(seq))})
			}
			if err := x.s.Emit(x.context(), list); err != nil {
				t.Error(err)
				return
			}
			id := first/20 + 1
			if err := x.s.Barrier(x.context(), pipeline.Barrier{ID: id, Position: pipeline.Position(first + 19)}); err != nil {
				t.Error(err)
				return
			}
			if _, err := x.o.Seal(x.context(), pipeline.Barrier{ID: id, Position: pipeline.Position(first + 19)}); errors.Is(err, log.ErrFull) {
				continue // the checkpoint fails; the next one releases what it held
			} else if err != nil {
				t.Error(err)
				return
			}
			x.o.Released(id)
			sealed.Lock()
			sealed.seq = first + 19
			sealed.Unlock()
		}
	})
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			st := x.s.Stats()
			switch to := min(st.VisibleUpTo, st.ConfirmedUpTo+uint64(1+rand.IntN(15))); {
			case to <= st.ConfirmedUpTo:
			case rand.IntN(4) == 0:
				if err := x.s.Skip(x.context(), st.ConfirmedUpTo+1, to, "refused"); err != nil {
					t.Error(err)
					return
				}
			default:
				if err := x.s.Confirm(to, x.chain[to]); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	copies, gaps := 0, 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		sealed.Lock()
		upTo := sealed.seq
		sealed.Unlock()
		pin := x.o.Pin()
		w, _ := pin.Waiting("s")
		next := w.Confirmed + 1
		err := pin.Copy(x.context(), "s", upTo, func(r *pipeline.Result) error {
			if r.Seq != next || r.Last > upTo || r.Kind == pipeline.ResultData && (r.Last != r.Seq || string(r.Payload) != text(r.Seq) || r.Chain != x.chain[r.Seq]) {
				t.Errorf("behind %d comes %+v", next-1, r)
			}
			if r.Kind == pipeline.ResultGap {
				gaps++
			}
			next = r.Last + 1
			return nil
		})
		pin.Release()
		if err != nil || next != max(upTo, w.Confirmed)+1 {
			t.Errorf("mode %v: %d confirmed, copied up to %d, want %d: %v", mode, w.Confirmed, next-1, upTo, err)
		}
		copies++
		if t.Failed() {
			break
		}
	}
	all.Wait()
	t.Logf("%d copies, %d gaps in them", copies, gaps)
}
