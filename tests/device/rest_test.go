package device

import (
	"regexp"
	"strconv"
	"testing"
)

// TestAtRest measures the way from exec to SUBSCRIBE, and an agent to which no message comes. Time is counted in instructions here, a thousand million a second, whatever
// the host does meanwhile: about what a core of a small board does. Memory, and what the disk is asked for, are as they would be there.
func TestAtRest(t *testing.T) {
	needMachine(t)
	h, err := hardwareFor(t.Context(), t.TempDir(), weirFor(t, false), whole)
	here(t, err)
	h.append, h.counted = h.append+" device.measure", true
	st := newStage(t, h, seed(t))
	for _, state := range []string{"no state", "the state of the first boot"} {
		st.boot()
		line, err := st.vm.await(t.Context(), "subscribed", bootMost)
		st.must(err)
		t.Logf("with %s: %s", state, line)
		if st.boots == 1 {
			st.cut()
		}
	}
	_, err = st.vm.await(t.Context(), "rest begins", bootMost)
	st.must(err)
	before := st.disk.Counters()
	line, err := st.vm.await(t.Context(), "rest ends", bootMost)
	st.must(err)
	after := st.disk.Counters()
	writes, bytes, flushes := after.Writes-before.Writes, after.Bytes-before.Bytes, after.Flushes-before.Flushes
	t.Logf("at rest, %s; meanwhile the disk was asked for %d writes (%d bytes) and %d flushes", line, writes, bytes, flushes)
	if writes > 0 || flushes > 0 {
		t.Errorf("an agent at rest wrote %d times and flushed %d times", writes, flushes)
	}
	m := resident.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("how much memory it has is not told: %s", line)
	}
	if kib, err := strconv.Atoi(m[1]); err != nil || kib > residentMostKiB {
		t.Errorf("an agent at rest has %d KiB of memory, %d at most: %v", kib, residentMostKiB, err)
	}
	st.stop()
}

// residentMostKiB of memory has an agent at rest, with the pages of its program that it shares.
const residentMostKiB = 15 << 10

var resident = regexp.MustCompile(`rss (\d+) kB`)
