package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntouched: only parts of the program that cannot have been written to are dropped.
func TestUntouched(t *testing.T) {
	const smaps = `00400000-00a00000 r-xp 00000000 fe:00 12 /usr/local/bin/weir
Rss:                6764 kB
Anonymous:             0 kB
VmFlags: rd ex mr
00a00000-01000000 r--p 00600000 fe:00 12 /usr/local/bin/weir
Anonymous:             0 kB
01000000-01001000 r--p 00c00000 fe:00 12 /usr/local/bin/weir
Anonymous:             4 kB
01001000-01100000 rw-p 00c01000 fe:00 12 /usr/local/bin/weir
Anonymous:             0 kB
02000000-02100000 r--s 00000000 fe:00 12 /usr/local/bin/weir
Anonymous:             0 kB
03000000-03100000 r--p 00000000 fe:00 13 /usr/lib/other
Anonymous:             0 kB
04000000-04100000 rw-p 00000000 00:00 0
Anonymous:             0 kB
05000000-05100000 r-xp 00000000 fe:00 12 /usr/local/bin/weir (deleted)
Anonymous:             0 kB
`
	if got, want := fmt.Sprint(untouched(smaps, "/usr/local/bin/weir")), "[{4194304 6291456} {10485760 6291456}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := len(untouched(smaps, "/usr/local/bin/weir (deleted)")); got != 1 {
		t.Errorf("%d parts of a program that was replaced, want 1", got)
	}
}

// TestRestIsSeen: memory is given back once behind each stretch of work, not while something is done, and not again and again; what is mapped of the program, at each rest.
func TestRestIsSeen(t *testing.T) {
	var r rest
	start, gcs := time.Now(), uint64(3)
	at := func(after time.Duration, worked uint64, want shedding) {
		t.Helper()
		if got := r.due(worked, gcs, start.Add(after)); got != want {
			t.Errorf("%s behind the start: %d is due, want %d", after, got, want)
		}
	}
	at(0, 7, shedNothing)
	at(10*time.Second, 7, shedNothing)
	at(14*time.Second, 8, shedNothing) // it works
	at(28*time.Second, 8, shedNothing)
	at(29*time.Second, 8, shedAll)
	at(43*time.Second, 8, shedNothing)
	at(44*time.Second, 8, shedMapped)
	at(49*time.Second, 8, shedNothing)
	gcs++
	at(54*time.Second, 8, shedMapped) // the collector had its turn
	at(59*time.Second, 8, shedNothing)
	at(time.Hour, 8, shedMapped) // nothing was done since: the heap is as it was
	at(time.Hour+time.Second, 9, shedNothing)
	at(time.Hour+16*time.Second, 9, shedAll)
	at(time.Hour+20*time.Second, 10, shedNothing)
	at(time.Hour+2*time.Minute, 10, shedMapped) // too soon behind the one before
	at(time.Hour+11*time.Minute, 10, shedAll)
}

// TestStartIsShedWhileItWorks: what a start left goes within a minute, once, though the agent never rests.
func TestStartIsShedWhileItWorks(t *testing.T) {
	var r rest
	start := time.Now()
	var when []time.Duration
	for after := time.Duration(0); after < time.Hour; after += shedPoll {
		if r.due(uint64(after), 0, start.Add(after)) != shedNothing {
			when = append(when, after)
		}
	}
	if len(when) != 1 || when[0] != shedStart {
		t.Errorf("memory was given back after %v", when)
	}
}

// TestShedIdle: it waits until the agent is ready and rests, and this very process goes on behind it.
func TestShedIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		asked, sheds := 0, map[shedding]int{}
		start := time.Now()
		go shedIdle(ctx, func() error {
			if asked++; asked < 3 {
				return os.ErrNotExist
			}
			return nil
		}, func() uint64 { return 1 }, func(what shedding) { sheds[what]++; shedMemory(what) })
		time.Sleep(time.Hour)
		stop()
		synctest.Wait()
		if sheds[shedAll] != 1 || sheds[shedMapped] < 238 || sheds[shedMapped] > int(time.Hour/shedPoll) { // each 15 s, and behind each turn that the collector had
			t.Errorf("memory was given back %v times in %s", sheds, time.Since(start))
		}
	})
}
