package log

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
)

// pressLog appends records to a log on a disk whose k-th operation fails, and those behind it for a while, opens the log again when it latches, and cuts the power at the end. It
// tells what was acknowledged and is not there, and what else is wrong; ops is how many operations there were.
func pressLog(t *testing.T, bugs faults, pressure disktest.Pressure, k, times int) (ops int, wrong []string) {
	mem := disktest.NewMem()
	d := disktest.Press(mem)
	strain := d.Below("/log")
	strain.Fail(pressure, k, times)
	o := Options{FS: d, Dir: "/log", Config: small()}
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	open := func() *Log {
		for range 100 {
			l, _, err := open(o, bugs)
			if err == nil {
				return l
			}
			if !errors.Is(err, pressure.Err) {
				complain("open: %v", err)
			}
			time.Sleep(time.Second)
		}
		t.Fatal("the log cannot be opened")
		return nil
	}
	began := time.Now()
	time.AfterFunc(30*time.Second, strain.Heal) // in the time of the bubble
	l := open()
	acked := uint64(0)
	for acked < 40 {
		pos, err := l.Append(record(l.Last()+1, 900))
		if err == nil {
			err = l.Sync(t.Context())
		}
		switch {
		case err == nil:
			acked = pos
			if acked%10 == 0 {
				_ = l.Trim(acked - 3) // trimmed later where the disk does not let it now
			}
		case errors.Is(err, ErrFull):
			time.Sleep(100 * time.Millisecond)
		case errors.Is(err, ErrFailed):
			_ = l.Close()
			time.Sleep(time.Second) // whoever opens it again pauses
			l = open()
			if l.Last() < acked {
				complain("%d was acknowledged and is gone, the last is %d", acked, l.Last())
				acked = l.Last()
			}
		default:
			t.Fatal(err)
		}
		if time.Since(began) > 5*time.Minute {
			complain("it does not go on by itself")
			break
		}
	}
	if n, by := strain.Failed(); n > 120 { // once a second, for 30 seconds, and each opening's
		complain("%d tries in 30 s: %v", n, by)
	}
	wrong = append(wrong, strain.Misused()...)
	ops = len(strain.Ops())
	look := func(image *disktest.Mem) {
		after, rec, err := Open(Options{FS: image, Dir: "/log", Config: o.Config})
		if err != nil {
			complain("open behind a cut: %v", err)
			return
		}
		defer after.Close()
		if after.Last() < acked || len(rec.Lost) > 0 {
			complain("behind a cut the last is %d, acknowledged was %d, lost %v", after.Last(), acked, rec.Lost)
		}
	}
	c := disktest.Crasher{}
	c.Images(mem, 0, look) // a power cut; there may be nothing that it could take
	_ = l.Close()
	look(mem.Clone()) // a kill
	return ops, wrong
}

// TestNothingAcknowledgedIsLostUnderPressure: whichever operation fails, once or for half a minute, and however.
func TestNothingAcknowledgedIsLostUnderPressure(t *testing.T) {
	for _, pressure := range []disktest.Pressure{disktest.Full, disktest.FailWrite, disktest.FailSync, disktest.FailAll, disktest.ReadOnly, disktest.Aborted} {
		synctest.Test(t, func(t *testing.T) {
			ops, wrong := pressLog(t, faults{}, pressure, 0, 0)
			tried := 0
			for k := 1; k <= ops; k++ {
				for _, times := range []int{1, -1} {
					_, w := pressLog(t, faults{}, pressure, k, times)
					tried++
					for _, text := range w {
						wrong = append(wrong, fmt.Sprintf("%s, %d at %d: %s", pressure.Name, times, k, text))
					}
				}
			}
			if len(wrong) > 0 {
				t.Errorf("%d of %d are wrong:\n%s", len(wrong), tried, strings.Join(wrong[:min(len(wrong), 10)], "\n"))
			}
			t.Logf("%s: %d", pressure.Name, tried)
		})
	}
}

// TestPlantedFaultsUnderPressureAreFound: a sync that is tried again and believed, and a write without space that counts as done.
func TestPlantedFaultsUnderPressureAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		bugs     faults
		pressure disktest.Pressure
	}{
		"a sync is tried again":        {faults{syncAgain: true}, disktest.FailSync},
		"no space counts as done":      {faults{fullIsDone: true}, disktest.Full},
		"a full disk is hammered":      {faults{noPause: true}, disktest.Full},
		"read-only counts as done":     {faults{fullIsDone: true}, disktest.ReadOnly},
		"a read-only disk is hammered": {faults{noPause: true}, disktest.ReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for k := 1; k <= 70; k++ {
					for _, times := range []int{1, -1} {
						if _, wrong := pressLog(t, c.bugs, c.pressure, k, times); len(wrong) > 0 {
							t.Logf("%d at %d: %s", times, k, wrong[0])
							return
						}
					}
				}
				t.Error("the planted fault was not found")
			})
		})
	}
}

// TestFullDiskIsNotFilledAgainAndAgain: a segment that has no room is not written as far as there is room, each second anew.
func TestFullDiskIsNotFilledAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := disktest.NewMem()
		f := disktest.NewFaulty(mem)
		c := small()
		l, _ := mustOpen(t, f, c)
		defer l.Close()
		f.LimitSpace(c.SegmentBytes * 3 / 2) // one segment, and half of another
		written := 0
		mem.OnOp(func(op string) {
			if strings.HasPrefix(op, "write ") {
				written++
			}
		})
		for {
			if _, err := l.AppendReserved(record(l.Last()+1, 900)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if l.Stats().Waits != "" {
				break
			}
		}
		before := written
		time.Sleep(time.Hour)
		if w := l.Stats().Waits; written != before || !strings.Contains(w, syscall.ENOSPC.Error()) {
			t.Errorf("%d writes in an hour without room; it waits for: %q", written-before, w)
		}
		f.LimitSpace(1 << 20)
		if err := l.Sync(t.Context()); err != nil || l.Stats().Waits != "" {
			t.Errorf("with room again: %v, %q", err, l.Stats().Waits)
		}
	})
}
