package device

import (
	"bytes"
	"fmt"
	"path"
)

// archive is an initramfs in the format newc (Documentation/driver-api/early-userspace/buffer-format.rst of Linux). It is not packed: an emulated processor takes
// longer to unpack it than the host to load it.
type archive struct {
	b     bytes.Buffer
	inode int
	dirs  map[string]bool
}

// Modes of cpio, which are those of stat.
const (
	modeDir       = 0o40755
	modeProgram   = 0o100755
	modeCharacter = 0o20600
)

// add puts a file into the archive, and the directories above it.
func (a *archive) add(name string, data []byte) { a.entry(name, modeProgram, data, 0, 0) }

// device puts a character device into the archive.
func (a *archive) device(name string, major, minor int) {
	a.entry(name, modeCharacter, nil, major, minor)
}

// bytes are the finished archive's.
func (a *archive) bytes() []byte {
	a.entry("TRAILER!!!", 0, nil, 0, 0)
	return a.b.Bytes()
}

func (a *archive) entry(name string, mode int, data []byte, major, minor int) {
	a.parent(path.Dir(name))
	a.inode++
	fmt.Fprintf(&a.b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	a.b.WriteString(name + "\x00")
	a.align()
	a.b.Write(data)
	a.align()
}

func (a *archive) align() {
	for a.b.Len()%4 != 0 {
		a.b.WriteByte(0)
	}
}

func (a *archive) parent(dir string) {
	if dir == "." || a.dirs[dir] {
		return
	}
	if a.dirs == nil {
		a.dirs = map[string]bool{}
	}
	a.dirs[dir] = true
	a.entry(dir, modeDir, nil, 0, 0)
}
