package device

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestArchive has an archive read by cpio, or else checks what the kernel relies on: each header and each content begins at a multiple of four.
func TestArchive(t *testing.T) {
	var a archive
	a.add("init", []byte("one"))
	a.device("dev/console", 5, 1)
	a.add("modules/0-a.ko", bytes.Repeat([]byte{1}, 1001))
	a.add("modules/1-b.ko", nil)
	b := a.bytes()
	names := listed(t, b)
	if want := "init dev dev/console modules modules/0-a.ko modules/1-b.ko"; strings.Join(names, " ") != want {
		t.Errorf("the archive has %v, want %s", names, want)
	}
	program, err := exec.LookPath("cpio")
	if err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), program, "-it", "--quiet")
	cmd.Stdin = bytes.NewReader(b)
	out, err := cmd.Output()
	if err != nil || strings.Join(strings.Fields(string(out)), " ") != strings.Join(names, " ") {
		t.Errorf("cpio lists %s: %v", out, err)
	}
}

// listed reads an archive as the kernel's init/initramfs.c does.
func listed(t *testing.T, b []byte) (names []string) {
	t.Helper()
	number := func(at int) (n int) {
		for _, c := range b[at : at+8] {
			n = n<<4 + strings.IndexByte("0123456789ABCDEF", c)
		}
		return n
	}
	const header = 110
	for at := 0; ; {
		if at%4 != 0 || len(b) < at+header || string(b[at:at+6]) != "070701" {
			t.Fatalf("no header at %d", at)
		}
		size, length := number(at+6+6*8), number(at+6+11*8)
		name := string(b[at+header : at+header+length-1])
		if name == "TRAILER!!!" {
			return names
		}
		names = append(names, name)
		at = (at + header + length + 3) / 4 * 4
		at = (at + size + 3) / 4 * 4
	}
}
