package outbox

import (
	"fmt"

	"github.com/weirstream/weir/store/disk/disktest"
)

// watch tries, at each change and each sync of the file system, every image that a power cut may leave there: the pipeline starts
// on it and must end exact. The operation's caller waits meanwhile, so the world stands still.
func (w *world) watch() {
	if w.crasher == nil {
		return
	}
	w.m.mem.OnOp(func(string) {
		if w.found != nil {
			return
		}
		w.crasher.Images(w.m.mem, w.sum(), func(image *disktest.Mem) {
			c := w.clone(medium{image})
			err := c.start(false)
			if err == nil {
				err = c.finish()
			}
			if w.found == nil {
				w.found = err
			}
			if c.o != nil {
				_ = c.o.Close()
			}
		})
	})
}

// sum tells worlds apart whose files are equal.
func (w *world) sum() uint64 {
	n := w.manifests[len(w.manifests)-1].id
	for _, k := range w.sinks {
		n = n*1_000_003 + uint64(len(k.held))*1009 + uint64(len(k.dead))
	}
	return n
}

// finish lets everything through and checks what upstream holds.
func (w *world) finish() error {
	for _, k := range w.sinks { // the replay reaches what upstream held before the crash
		if n := uint64(len(k.held)); k.seq < n {
			if err := w.emit(k, int(n-k.seq)); err != nil {
				return err
			}
		}
	}
	if err := w.checkpoint(4); err != nil {
		return err
	}
	for _, k := range w.sinks {
		for range 10_000 {
			k.s.mu.Lock()
			done := k.s.confirmed >= k.seq
			idle := k.s.visible() <= k.s.cursor
			k.s.mu.Unlock()
			if done {
				break
			}
			if idle {
				if err := w.open(k); err != nil {
					return err
				}
			}
			if err := w.send(k, true); err != nil {
				return err
			}
		}
		if err := k.check(); err != nil {
			return err
		}
	}
	return nil
}

func (k *sinkWorld) check() error {
	if uint64(len(k.held)) != k.seq {
		return fmt.Errorf("%s: upstream holds %d results, %d were made", k.uid, len(k.held), k.seq)
	}
	st := k.s.Stats()
	gaps, by := uint64(0), causes{}
	for i, h := range k.held {
		seq := uint64(i + 1)
		switch {
		case !h.gap && h.payload != k.made[seq]:
			return fmt.Errorf("%s: result %d upstream is %q, the pipeline's is %q", k.uid, seq, h.payload, k.made[seq])
		case h.gap && h.payload == "rejected" && k.dead[seq] == "":
			return fmt.Errorf("%s: result %d is a gap without a dead letter", k.uid, seq)
		case h.gap && h.payload == reasonFull && k.opt.OnFull != DropOldest, h.gap && h.payload == reasonExpired && k.opt.TTL == 0:
			return fmt.Errorf("%s: result %d is a gap: %s", k.uid, seq, h.payload)
		}
		if h.gap {
			gaps++
			c, ok := causeOf(h.payload)
			if !ok {
				return fmt.Errorf("%s: result %d is a gap for no cause: %s", k.uid, seq, h.payload)
			}
			by[c]++
		}
	}
	if st.Dropped+st.Rejected != gaps || st.Confirmed+gaps+st.Held != k.seq {
		return fmt.Errorf("%s: ledger says %d confirmed and %d dropped, upstream holds %d with %d gaps", k.uid, st.Confirmed, st.Dropped, k.seq, gaps)
	}
	if n := (causes{st.Rejected, st.Expired, st.Overflowed}); n != by {
		return fmt.Errorf("%s: ledger says %v were rejected, expired, dropped, upstream holds such gaps: %v", k.uid, n, by)
	}
	if st.Divergences != 0 {
		return fmt.Errorf("%s: %d divergences", k.uid, st.Divergences)
	}
	if st.WaitingBytes != 0 || st.MemoryBytes != 0 {
		return fmt.Errorf("%s: %d bytes waiting, %d in memory when all is confirmed", k.uid, st.WaitingBytes, st.MemoryBytes)
	}
	return nil
}
