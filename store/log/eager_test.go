package log

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// gatedDisk holds every sync of a file until the gate gives its outcome.
type gatedDisk struct {
	disk.FS
	gate chan error // nil: open
}

func (d *gatedDisk) Create(name string) (disk.File, error) { return d.wrap(d.FS.Create(name)) }
func (d *gatedDisk) Open(name string) (disk.File, error)   { return d.wrap(d.FS.Open(name)) }

func (d *gatedDisk) wrap(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, d}, nil
}

type gatedFile struct {
	disk.File
	d *gatedDisk
}

func (f *gatedFile) Sync() error {
	if f.d.gate != nil {
		if err := <-f.d.gate; err != nil {
			return err
		}
	}
	return f.File.Sync()
}

// TestEagerReaderDoesNotWaitForTheSync: it has a record while the sync that makes it durable is under way, other readers have not; behind the
// sync both go on, and nothing comes twice.
func TestEagerReaderDoesNotWaitForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &gatedDisk{FS: disktest.NewMem()}
		l, _ := mustOpen(t, d, small())
		if _, err := l.Append([]byte("first")); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		eager, err := l.EagerReader(1)
		if err != nil {
			t.Fatal(err)
		}
		patient, err := l.Reader(1)
		if err != nil {
			t.Fatal(err)
		}
		d.gate = make(chan error)
		last := uint64(1)
		for range 3 {
			last++
			if pos, err := l.Append([]byte("more")); err != nil || pos != last {
				t.Fatal(pos, err)
			}
			time.Sleep(time.Second) // the commit is in its sync
			if l.Durable() >= last {
				t.Fatal("durable before the sync")
			}
			if got := drain(t, eager); got != last {
				t.Fatalf("the eager reader is at %d, want %d", got, last)
			}
			if got := drain(t, patient); got >= last {
				t.Fatalf("another reader has record %d, which is not durable", got)
			}
			d.gate <- nil
			synctest.Wait()
			if got := drain(t, patient); got != last {
				t.Fatalf("behind the sync another reader is at %d, want %d", got, last)
			}
			if got := drain(t, eager); got != last {
				t.Fatalf("behind the sync the eager reader is at %d, want %d", got, last)
			}
		}
		if err := eager.Close(); err != nil {
			t.Fatal(err)
		}
		close(d.gate)
		d.gate = nil
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// drain reads what there is and gives the reader's place; records come one by one and never twice.
func drain(t *testing.T, r *Reader) uint64 {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		before := r.next
		b, err := r.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return before - 1
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.First != before {
			t.Fatalf("block from %d, want %d", b.First, before)
		}
	}
}

// TestEagerReaderOfAFailedLog: when the sync fails, the reader ends with the failure and gives nothing more.
func TestEagerReaderOfAFailedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &gatedDisk{FS: disktest.NewMem()}
		l, _ := mustOpen(t, d, small())
		r, err := l.EagerReader(1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append([]byte("kept")); err != nil { // makes the segment
			t.Fatal(err)
		}
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.gate = make(chan error)
		if _, err := l.Append([]byte("lost")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := drain(t, r); got != 2 {
			t.Fatalf("at %d, want 2", got)
		}
		d.gate <- errors.New("device is gone")
		synctest.Wait()
		if _, err := r.Next(t.Context()); !errors.Is(err, ErrFailed) {
			t.Fatalf("got %v, want %v", err, ErrFailed)
		}
		close(d.gate)
		d.gate = nil
		_ = l.Close() // tells of the failure again
	})
}
