//go:build !nopebble

package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirstream/weir/store/disk/disktest"
)

// pressures are what a disk may do.
var pressures = []disktest.Pressure{disktest.Full, disktest.FailWrite, disktest.FailSync, disktest.FailAll, disktest.ReadOnly, disktest.Aborted}

// pressedLog is a log on a disk that fails, and what it has promised.
type pressedLog struct {
	strain *disktest.Strain
	o      LogOptions
	synced uint64
	first  uint64
}

func newPressedLog() *pressedLog {
	disk := disktest.Press(disktest.NewMem())
	return &pressedLog{strain: disk.Below("kv"), o: LogOptions{FS: disk, Dir: "kv"}, first: 1}
}

// life opens the log, works until something fails, and closes it.
func (p *pressedLog) life(ctx context.Context) (err error) {
	l, err := OpenLog(p.o)
	if err != nil {
		return err
	}
	defer func() {
		if closed := l.Close(); err == nil {
			err = closed
		}
	}()
	for turn := range 12 {
		for range 3 {
			if _, err := l.Append(record(l.Last() + 1)); err != nil {
				return err
			}
		}
		last := l.Last()
		if err := l.Sync(ctx); err != nil {
			return err
		}
		p.synced = last
		if turn%4 == 3 {
			p.first = last - 2
			if err := l.Trim(p.first); err != nil {
				return err
			}
		}
		if turn%3 == 2 { // a table, a manifest, a log of Pebble's that is not needed any more
			if err := l.pebble.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge opens the log on the disk that is well again.
func (p *pressedLog) judge(ctx context.Context) error {
	l, err := OpenLog(p.o)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer l.Close()
	if len(l.Aside()) > 0 || l.Last() < p.synced || l.First() > p.first {
		return fmt.Errorf("it holds %d to %d, %d were synced, %d is the first that is needed; set aside: %v", l.First(), l.Last(), p.synced, p.first, l.Aside())
	}
	n := l.First()
	err = l.Scan(ctx, n, func(pos uint64, rec []byte) (bool, error) {
		if pos != n || string(rec) != string(record(pos)) {
			return false, fmt.Errorf("record %d reads %.20q", pos, rec)
		}
		n++
		return true, nil
	})
	if err == nil && n != l.Last()+1 {
		err = fmt.Errorf("records end at %d, Last is %d", n-1, l.Last())
	}
	if err == nil {
		_, err = l.Append(record(l.Last() + 1))
	}
	return errors.Join(err, l.Sync(ctx))
}

// TestLogUnderPressure lets each operation on the disk fail in turn, once or until the disk is well again. Pebble neither ends the process nor hangs: the log says that it failed, closes,
// has touched nothing since, and holds what it promised when it is opened again.
func TestLogUnderPressure(t *testing.T) {
	step := 4 // WEIR_PRESSURE=all takes each, as in the agent
	if os.Getenv("WEIR_PRESSURE") == "all" {
		step = 1
	}
	for _, pressure := range pressures {
		whole := newPressedLog()
		whole.strain.Fail(pressure, 0, 0)
		if err := whole.life(t.Context()); err != nil {
			t.Fatal(err)
		}
		ops, failed := whole.strain.Ops(), 0
		for k := 1; k <= len(ops); k += step {
			for _, times := range []int{1, -1} {
				p := newPressedLog()
				p.strain.Fail(pressure, k, times)
				err := p.life(t.Context())
				n, by := p.strain.Failed()
				p.strain.Heal()
				changes := 0
				for what, n := range by {
					if !strings.HasPrefix(what, "open ") {
						changes += n
					}
				}
				if n > 0 {
					failed++
				}
				if n > 0 && err != nil && !errors.Is(err, pressure.Err) && !errors.Is(err, ErrFull) {
					t.Errorf("%s at %d (%s), %d times: it ended with %v", pressure.Name, k, ops[k-1], times, err)
				}
				if changes > 8 { // what Pebble's goroutines had begun beside the one that severed the disk
					t.Errorf("%s at %d (%s), %d times: the disk was asked on: %v", pressure.Name, k, ops[k-1], times, by)
				}
				if err := p.judge(t.Context()); err != nil {
					t.Errorf("%s at %d (%s), %d times: %v", pressure.Name, k, ops[k-1], times, err)
				}
				if m := p.strain.Misused(); len(m) > 0 {
					t.Errorf("%s at %d (%s), %d times: %q", pressure.Name, k, ops[k-1], times, m)
				}
			}
		}
		if failed < len(ops)/step {
			t.Errorf("%s: %d lives met it, of %d operations", pressure.Name, failed, len(ops))
		}
		t.Logf("%s: %d operations, %d lives with a failure", pressure.Name, len(ops), failed)
	}
}

// TestFrankDiskIsFound: a Pebble that hears of errors ends the process or does not close. In a process of its own.
func TestFrankDiskIsFound(t *testing.T) {
	const which = "WEIR_FRANK"
	if os.Getenv(which) != "" {
		p := newPressedLog()
		p.o.fault.frank = true
		p.strain.Fail(disktest.FailWrite, 1, 0)
		_ = p.life(t.Context())
		for k := range p.strain.Ops() {
			p = newPressedLog()
			p.o.fault.frank = true
			p.strain.Fail(disktest.FailWrite, k+1, -1)
			_ = p.life(t.Context())
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestFrankDiskIsFound$", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), which+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "pebble: ") && !strings.Contains(string(out), "test timed out") {
		t.Errorf("not found: %v %s", err, out[:min(len(out), 2000)])
	}
}
