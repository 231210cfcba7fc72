package main

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
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

// TestShedStart: this very process goes on behind it.
func TestShedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		shedStart(t.Context(), func() error {
			if asked++; asked < 3 {
				return os.ErrNotExist
			}
			return nil
		})
		if asked != 3 {
			t.Errorf("asked %d times", asked)
		}
	})
}
