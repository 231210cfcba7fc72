package log

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestALossIsToldOnce: damage, a segment that is missing, and positions that a checkpoint knows and the log has not: the Open that finds it tells, the later ones know. What is found then is told as ever.
func TestALossIsToldOnce(t *testing.T) {
	errorsOf := func(m *disktest.Mem, after uint64, bugs faults) int {
		t.Helper()
		var b bytes.Buffer
		l, _, err := open(Options{FS: m, Dir: "/log", Config: small(), After: after, Logger: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn}))}, bugs)
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(b.String(), "log records lost")
	}
	for what, lose := range map[string]func(m *disktest.Mem, segs []*segment) (after uint64){
		"damage": func(m *disktest.Mem, segs []*segment) uint64 {
			m.Flip(segs[1].name, segs[1].frames[0].off, 3)
			return 0
		},
		"missing segment": func(m *disktest.Mem, segs []*segment) uint64 { return must(t, m.Remove(segs[1].name)) },
		"missing tail":    func(*disktest.Mem, []*segment) uint64 { return 1000 },
	} {
		m, segs := filled(t, 24, 700)
		if len(segs) < 3 {
			t.Fatalf("%d segments", len(segs))
		}
		after := lose(m, segs)
		for i, want := range []int{1, 0, 0} {
			if n := errorsOf(m, after, faults{}); n != want {
				t.Errorf("%s: start %d tells %d times, want %d", what, i+1, n, want)
			}
		}
		if n := errorsOf(m, after, faults{tellAgain: true}); n == 0 {
			t.Errorf("%s: the planted fault is not found", what)
		}
		m.Flip(segs[0].name, segs[0].frames[1].off, 3)
		if n := errorsOf(m, after, faults{}); n != 1 {
			t.Errorf("%s: damage that comes then is told %d times", what, n)
		}
	}
}

func must(t *testing.T, err error) uint64 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return 0
}
