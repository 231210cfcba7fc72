package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// shedPoll is how often it is asked whether the agent works.
	shedPoll = 5 * time.Second
	// shedAfter is how long it has done nothing then: longer than most senders of a gateway are silent, so that one that works gives nothing back.
	shedAfter = 15 * time.Second
	// shedStart is when what a start left is given back at the latest: also by an agent that never rests.
	shedStart = time.Minute
	// shedApart is how far apart two of them are at least. What is needed again costs some milliseconds.
	shedApart = 10 * time.Minute
	// shedPages is how often a resting agent drops what is mapped of its program: timers map it again, and the collector, which has its turn each two minutes whatever is done; behind that it is dropped at the next look. The kernel
	// maps 64 KiB around each page that is used, a third of which idling needs. It costs 1 ms of CPU, and no read as long as the page cache has them.
	shedPages = 15 * time.Second
)

// shedding is what is given back.
type shedding uint8

const (
	shedNothing shedding = iota
	shedMapped           // pages of the program
	shedAll              // and free heap
)

// shedIdle gives memory back, now and then, when the agent has come to rest: first behind its start, which needs heap for the restore and code that never runs again. An agent that
// idles then holds what idling needs; what is used again comes from the page cache, or from flash if the kernel needed its place elsewhere meanwhile. worked counts what the agent does.
func shedIdle(ctx context.Context, ready func() error, worked func() uint64, shed func(shedding)) {
	tick := time.NewTicker(shedPoll)
	defer tick.Stop()
	var r rest
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if ready() != nil {
				continue
			}
			if what := r.due(worked(), collections(), now); what != shedNothing {
				shed(what)
			}
		}
	}
}

// rest remembers since when nothing was done.
type rest struct {
	first time.Time // when it was first asked
	at    uint64
	since time.Time
	shed  time.Time // when memory was last given back; zero: never
	done  bool      // it was, since anything was done
	pages time.Time // when those of the program were last dropped
	gcs   uint64    // how often the collector had run then
}

// due tells what is to be given back now, and notes that it is. Pure but for that.
func (r *rest) due(at, gcs uint64, now time.Time) shedding {
	if r.first.IsZero() {
		r.first = now
	}
	if at != r.at || r.since.IsZero() {
		r.at, r.since, r.done = at, now, false
	}
	rests, begun := now.Sub(r.since) >= shedAfter, r.shed.IsZero() && now.Sub(r.first) >= shedStart
	switch {
	case !r.done && (rests || begun) && (r.shed.IsZero() || now.Sub(r.shed) >= shedApart):
		r.shed, r.pages, r.gcs, r.done = now, now, gcs, true
		return shedAll
	case rests && !r.shed.IsZero() && (gcs != r.gcs || now.Sub(r.pages) >= shedPages):
		r.pages, r.gcs = now, gcs
		return shedMapped
	}
	return shedNothing
}

// collections is how often the collector has run.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// shedMemory gives back the pages of the program's file that are mapped because their code ran once, and the heap that is free.
func shedMemory(what shedding) {
	if plantedHoard {
		return
	}
	if what == shedAll {
		runtime.GC() // what lies in pools for reuse goes with the second collection, which FreeOSMemory makes
		debug.FreeOSMemory()
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil { // not every kernel has it
		return
	}
	for _, m := range untouched(string(smaps), program) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.size, unix.MADV_DONTNEED) // a hint: what is refused stays mapped
	}
}

// mapping is a part of the address space.
type mapping struct{ start, size uintptr }

// untouched picks the parts of a program's file that nobody can have written to: mapped without the right to write, and with no page of their own. Only these may be dropped: they come
// back from the file as they were.
func untouched(smaps, program string) (list []mapping) {
	var m mapping
	ours := false
	for l := range strings.Lines(smaps) {
		f := strings.Fields(l)
		switch {
		case len(f) >= 6 && strings.Contains(f[0], "-"):
			from, to, _ := strings.Cut(f[0], "-")
			start, err1 := strconv.ParseUint(from, 16, strconv.IntSize)
			end, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
			ours = err1 == nil && err2 == nil && end > start && !strings.Contains(f[1], "w") && strings.HasPrefix(f[1], "r") && strings.HasSuffix(f[1], "p") && strings.Join(f[5:], " ") == program
			m = mapping{uintptr(start), uintptr(end - start)}
		case len(f) >= 1 && strings.Contains(f[0], "-"):
			ours = false
		case ours && len(f) >= 2 && f[0] == "Anonymous:":
			if f[1] == "0" {
				list = append(list, m)
			}
			ours = false
		}
	}
	return list
}
