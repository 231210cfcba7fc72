//go:build !nopebble

package pebblekv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
)

// cacheDisk has what a cache of state wants besides: it is cleared at first.
type cacheDisk struct{ diskFS }

func (cacheDisk) RemoveAll(string) error { return nil } // it is new

// pressedState is a store of large state on a disk that fails.
type pressedState struct {
	*DB
	strain *disktest.Strain
	told   atomic.Int64
}

func newPressedState(t *testing.T) *pressedState {
	t.Helper()
	disk := disktest.Press(disktest.NewMem())
	p := &pressedState{strain: disk.Below("state")}
	var err error
	p.DB, err = open(Options{Dir: "state", MemoryBytes: 1 << 20, Background: func(error) { p.told.Add(1) }}, cacheDisk{diskFS{disk}})
	if err != nil {
		t.Fatal(err)
	}
	p.files.every = time.Millisecond
	return p
}

// life writes more than the memory takes, reads it again and again, and tells what was wrong: never may a read give anything but what was written.
func (p *pressedState) life() error {
	draw, model := rand.New(rand.NewPCG(1, 2)), map[string]string{}
	for turn := range 40 {
		b := p.Batch()
		for range 200 {
			k, v := fmt.Sprintf("key%05d", draw.IntN(4000)), strings.Repeat(fmt.Sprint(turn, " "), 60)
			model[k] = v
			if err := b.Set([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
		if err := errors.Join(b.Apply(), b.Close()); err != nil {
			return err
		}
		for range 50 {
			k := fmt.Sprintf("key%05d", draw.IntN(4000))
			got, ok, err := p.Get(nil, []byte(k))
			if err != nil {
				return err
			}
			if want, there := model[k]; ok != there || string(got) != want {
				return fmt.Errorf("WRONG: %s is %.10q (%t), want %.10q", k, got, ok, want)
			}
		}
	}
	it, err := p.Iter([]byte("key"), []byte("kez"))
	if err != nil {
		return err
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		return err
	}
	if n != len(model) {
		return fmt.Errorf("WRONG: %d keys, want %d", n, len(model))
	}
	return nil
}

// TestStateUnderPressure: a disk that is full, or takes no writes, for a while is waited for, whichever operation met it first; after any other error the store gives up at once and asks the disk no more. It
// never gives anything but what was written, and closes in each case.
func TestStateUnderPressure(t *testing.T) {
	readOnly := disktest.ReadOnly
	readOnly.Hits = func(o disktest.Op) bool { return disktest.ReadOnly.Hits(o) && o != disktest.OpOpen } // reading goes on
	for _, c := range []struct {
		disktest.Pressure
		waits bool
	}{{disktest.Full, true}, {readOnly, true}, {disktest.FailWrite, false}, {disktest.FailAll, false}} {
		whole := newPressedState(t)
		whole.strain.Fail(c.Pressure, 0, 0)
		if err := errors.Join(whole.life(), whole.Close()); err != nil {
			t.Fatal(err)
		}
		ops := whole.strain.Ops()
		step := max(1, len(ops)/12)
		if os.Getenv("WEIR_PRESSURE") == "all" {
			step = 1
		}
		met := 0
		for k := 1; k <= len(ops); k += step {
			p := newPressedState(t)
			times := -1
			if c.waits {
				times = 30
			}
			p.strain.Fail(c.Pressure, k, times)
			err := p.life()
			n, by := p.strain.Failed()
			if err := p.Close(); err != nil && !errors.Is(err, c.Err) {
				t.Errorf("%s at %d: close: %v", c.Name, k, err)
			}
			if n > 0 {
				met++
			}
			switch {
			case c.waits && (err != nil || n > 0 && p.told.Load() != 1 || p.Waits() != nil):
				t.Errorf("%s at %d: %v; it failed %d times and was told %d times", c.Name, k, err, n, p.told.Load())
			case !c.waits && n > 8:
				t.Errorf("%s at %d: the disk was asked on: %v", c.Name, k, by)
			case !c.waits && err != nil && (!errors.Is(err, ErrFailed) || !errors.Is(err, c.Err)):
				t.Errorf("%s at %d: %v", c.Name, k, err)
			}
		}
		if met == 0 {
			t.Errorf("%s: nothing met it", c.Name)
		}
		t.Logf("%s: %d operations, %d lives met it", c.Name, len(ops), met)
	}
}

// TestReleaseEndsTheWaiting: of a writer whose memory is full, and of Close.
func TestReleaseEndsTheWaiting(t *testing.T) {
	p := newPressedState(t)
	p.strain.Fail(disktest.Full, 1, -1)
	done := make(chan error, 1)
	go func() { done <- p.life() }() // waited for below
	for p.Waits() == nil {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	p.Release()
	if err := <-done; !errors.Is(err, ErrFailed) {
		t.Errorf("released: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestRestlessPebbleIsFound: without what stands between them Pebble asks a disk that fails for ever, as fast as it can.
func TestRestlessPebbleIsFound(t *testing.T) {
	p := newPressedState(t)
	p.files.off = true
	p.strain.Fail(disktest.FailWrite, 1, -1)
	done := make(chan error, 1)
	go func() { done <- p.life() }() // waited for below
	for n := 0; n < 200; n, _ = p.strain.Failed() {
		select {
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	p.strain.Heal()
	if err := errors.Join(<-done, p.Close()); err != nil {
		t.Error(err)
	}
}
