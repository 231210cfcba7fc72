package nbd

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

const diskBytes = 4 << 20

// served is a disk with a server before it.
func served(t testing.TB, disk Disk) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "nbd"))
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, disk)
	t.Cleanup(s.Close)
	return l
}

func block(b byte) []byte { return bytes.Repeat([]byte{b}, 4096) }

func TestHandshake(t *testing.T) {
	l := served(t, volatiledisk.New(diskBytes))
	t.Run("go", func(t *testing.T) {
		c := connect(t, l)
		if c.size != diskBytes || c.flags != abilities {
			t.Errorf("size %d, flags %#x", c.size, c.flags)
		}
	})
	t.Run("export name, with padding", func(t *testing.T) {
		c := dial(t, l, flagFixedNewstyle)
		c.put(optionHeader{magicOption, optExportName, 0})
		var e struct {
			Size  uint64
			Flags uint16
			Zeros [124]byte
		}
		c.get(&e)
		if e.Size != diskBytes || e.Flags != abilities {
			t.Errorf("export %+v", e)
		}
		c.must(cmdWrite, 0, 0, 4096, block(1))
	})
	t.Run("list, and go on", func(t *testing.T) {
		c := dial(t, l, flagFixedNewstyle|flagNoZeroes)
		for _, x := range []struct {
			option uint32
			data   []byte
			want   uint32
		}{
			{optList, nil, repServer}, {optList, []byte{1}, repErrInvalid}, {optInfo, goOption("", 0, 3), repInfo}, {optGo, goOption("other"), repErrUnknown},
			{optGo, goOption("")[:5], repErrInvalid}, {optGo, append(goOption(""), 0), repErrInvalid}, {optGo, []byte{255, 255, 255, 255, 0, 0}, repErrInvalid},
			{5, nil, repErrUnsup}, {99, make([]byte, optionBytesMax+1), repErrTooBig}, {optAbort, nil, repAck},
		} {
			if kinds, _ := c.option(x.option, x.data); kinds[0] != x.want {
				t.Errorf("option %d with %.20q is answered by %#x, want %#x", x.option, x.data, kinds[0], x.want)
			}
		}
		c.ended(t)
	})
	t.Run("another protocol", func(t *testing.T) {
		c := dial(t, l, 1<<7)
		c.ended(t)
	})
}

// ended: the server hangs up.
func (c *client) ended(t *testing.T) {
	t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v; the connection should have ended", n, err)
	}
}

// TestWhatIsFlushedSurvives: of every kind of request, what the protocol says is durable.
func TestWhatIsFlushedSurvives(t *testing.T) {
	for _, w := range acrossCut(t, func(d *volatiledisk.Disk) Disk { return d }) {
		t.Error(w)
	}
}

// What a server could do wrong, planted beneath it.
type (
	forgetsFlush  struct{ *volatiledisk.Disk }
	forgetsFUA    struct{ *volatiledisk.Disk }
	flushesForFUA struct{ *volatiledisk.Disk }
	keepsZeros    struct{ *volatiledisk.Disk }
)

func (forgetsFlush) Flush() error                                  { return nil }
func (f forgetsFUA) WriteDurable(p []byte, off int64) (int, error) { return f.WriteAt(p, off) }
func (f flushesForFUA) WriteDurable(p []byte, off int64) (int, error) {
	return errorOnly(f.WriteAt(p, off))(f.Flush())
}
func (keepsZeros) Zero(int64, int64) error { return nil }

// errorOnly joins what a write gave with the error of what follows it.
func errorOnly(n int, err error) func(error) (int, error) {
	return func(next error) (int, error) { return n, errors.Join(err, next) }
}

func TestPlantedFaults(t *testing.T) {
	for name, plant := range map[string]func(*volatiledisk.Disk) Disk{
		"a flush is forgotten":  func(d *volatiledisk.Disk) Disk { return forgetsFlush{d} },
		"FUA is forgotten":      func(d *volatiledisk.Disk) Disk { return forgetsFUA{d} },
		"FUA flushes all":       func(d *volatiledisk.Disk) Disk { return flushesForFUA{d} },
		"zeros are not written": func(d *volatiledisk.Disk) Disk { return keepsZeros{d} },
	} {
		if len(acrossCut(t, plant)) == 0 {
			t.Errorf("%s, and nothing shows it", name)
		}
	}
}

// acrossCut writes in every way, cuts the power, and gives what is not as it must be before and behind.
func acrossCut(t *testing.T, plant func(*volatiledisk.Disk) Disk) (wrong []string) {
	t.Helper()
	disk := volatiledisk.New(diskBytes)
	c := connect(t, served(t, plant(disk)))
	expect := func(when string, c *client, bytes map[uint64]byte) {
		for off, want := range bytes {
			if got := c.must(cmdRead, 0, off, 512, nil)[0]; got != want {
				wrong = append(wrong, fmt.Sprintf("at %d is %d %s the cut, want %d", off, got, when, want))
			}
		}
	}
	c.must(cmdWrite, 0, 0, 4096, block(1))
	c.must(cmdWrite, 0, 4096, 4096, block(2))
	c.must(cmdWrite, 0, 8192, 4096, block(3))
	c.must(cmdFlush, 0, 0, 0, nil)
	c.must(cmdWrite, 0, 0, 4096, block(4))                 // lost
	c.must(cmdWrite, cmdFlagFUA, 12288, 4096, block(5))    // durable, alone
	c.must(cmdTrim, 0, 4096, 4096, nil)                    // lost
	c.must(cmdWriteZeroes, cmdFlagNoHole, 8192, 512, nil)  // lost
	c.must(cmdWriteZeroes, cmdFlagFUA, 8192+512, 512, nil) // durable, alone
	c.must(cmdTrim, cmdFlagFUA, 8192+1024, 512, nil)       // durable, alone
	c.must(cmdWrite, cmdFlagFUA, 1<<20, 1<<20+4096, bytes.Repeat([]byte{6}, 1<<20+4096))
	c.must(cmdWriteZeroes, cmdFlagFUA, 1<<20, 1<<20+512, nil) // more than a chunk
	expect("before", c, map[uint64]byte{0: 4, 4096: 0, 8192: 0, 8192 + 1536: 3, 12288: 5, 2<<20 + 512: 6})
	image := disk.Cut(volatiledisk.Cut{Mode: volatiledisk.Drop})
	c = connect(t, served(t, volatiledisk.FromImage(image)))
	expect("behind", c, map[uint64]byte{0: 1, 4096: 2, 8192: 3, 8192 + 512: 0, 8192 + 1024: 0, 8192 + 1536: 3, 12288: 5, 1 << 20: 0, 2 << 20: 0, 2<<20 + 512: 6})
	return wrong
}

// TestRefusals: a request that cannot be is refused by number, and the connection goes on.
func TestRefusals(t *testing.T) {
	c := connect(t, served(t, volatiledisk.New(diskBytes)))
	for _, x := range []struct {
		kind, flags uint16
		off         uint64
		n           uint32
		data        []byte
	}{
		{cmdRead, 0, diskBytes, 512, nil},
		{cmdRead, 0, 1<<64 - 512, 1024, nil},
		{cmdRead, 1 << 9, 0, 512, nil},
		{cmdWrite, 0, diskBytes - 512, 1024, make([]byte, 1024)},
		{cmdWrite, 0, 100, 512, make([]byte, 512)},
		{cmdWrite, cmdFlagNoHole, 0, 512, make([]byte, 512)},
		{cmdWriteZeroes, 0, 0, 100, nil},
		{77, 0, 0, 0, nil},
	} {
		if number, _ := c.ask(x.kind, x.flags, x.off, x.n, x.data); number != errInval {
			t.Errorf("request %d, flags %#x, %d bytes at %d: error %d, want %d", x.kind, x.flags, x.n, x.off, number, errInval)
		}
	}
	c.must(cmdRead, 0, 0, 512, nil)
	c.send(cmdDisconnect, 0, 0, 0, nil)
	c.ended(t)
}

// sick fails.
type sick struct{ *volatiledisk.Disk }

func (sick) Flush() error { return io.ErrUnexpectedEOF }

func TestErrorOfTheDisk(t *testing.T) {
	c := connect(t, served(t, sick{volatiledisk.New(diskBytes)}))
	if number, _ := c.ask(cmdFlush, 0, 0, 0, nil); number != errIO {
		t.Errorf("a flush that failed is answered by %d, want %d", number, errIO)
	}
}

// TestAfterTheCutNothingIsAnswered: neither that it is done, nor an error, nor the end of the connection.
func TestAfterTheCutNothingIsAnswered(t *testing.T) {
	for name, kind := range map[string]uint16{"flush": cmdFlush, "read": cmdRead, "write": cmdWrite, "trim": cmdTrim} {
		t.Run(name, func(t *testing.T) {
			disk := volatiledisk.New(diskBytes)
			c := connect(t, served(t, disk))
			c.must(cmdWrite, 0, 0, 512, make([]byte, 512))
			disk.Cut(volatiledisk.Cut{})
			for range 3 {
				var data []byte
				if kind == cmdWrite {
					data = make([]byte, 512)
				}
				c.send(kind, 0, 0, 512, data)
			}
			c.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			if n, err := c.conn.Read(make([]byte, 64)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d bytes and %v after the cut", n, err)
			}
		})
	}
}

// TestQemuSpeaksToIt has qemu's own client write, flush, discard and read.
func TestQemuSpeaksToIt(t *testing.T) {
	program, err := exec.LookPath("qemu-io")
	if err != nil {
		t.Skip("NOT TESTED HERE: qemu-io is not installed (make deps-device)")
	}
	disk := volatiledisk.New(diskBytes)
	l := served(t, disk)
	qemu := func(commands ...string) {
		t.Helper()
		args := []string{"-f", "raw", "-t", "writeback", "-d", "unmap"}
		for _, c := range commands {
			args = append(args, "-c", c)
		}
		cmd := exec.CommandContext(t.Context(), program, append(args, "nbd+unix:///?socket="+l.Addr().String())...)
		if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("ailed")) {
			t.Fatalf("%v: %v\n%s", commands, err, out)
		}
	}
	qemu("write -P 1 0 64k", "write -P 2 64k 64k", "flush", "write -z 64k 4k", "discard 68k 4k", "write -f -P 3 1M 4k", "read -P 1 0 64k", "read -P 0 64k 4k", "read -P 2 72k 4k")
	if n := disk.Counters(); n.Writes < 3 || n.Flushes == 0 || n.Zeros < 2 || n.Durable == 0 {
		t.Errorf("the disk was asked for %+v", n)
	}
	qemu("read -P 3 1M 4k", "read -P 2 72k 56k")
}

// FuzzSession: whatever a client sends, the server neither panics nor hangs, and answers no more than was asked.
func FuzzSession(f *testing.F) {
	hello := []byte{0, 0, 0, 3}
	option := func(option uint32, data []byte) []byte {
		b := binary.BigEndian.AppendUint64(nil, magicOption)
		b = binary.BigEndian.AppendUint32(b, option)
		return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...)
	}
	ask := func(kind, flags uint16, off uint64, n uint32) []byte {
		b, _ := binary.Append(nil, binary.BigEndian, request{magicRequest, flags, kind, 1, off, n})
		return b
	}
	begun := append(hello, option(optGo, goOption("", 3))...)
	f.Add(begun)
	f.Add(append(hello, option(optList, nil)...))
	for _, b := range [][]byte{ask(cmdRead, 0, 0, 512), append(ask(cmdWrite, 1, 512, 512), make([]byte, 512)...), ask(cmdFlush, 0, 0, 0), ask(cmdTrim, 1, 0, 4096), ask(cmdWriteZeroes, 2, 4096, 512)} {
		f.Add(append(bytes.Clone(begun), b...))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		var got bytes.Buffer
		s := &session{disk: volatiledisk.New(64 << 10), r: bufio.NewReader(bytes.NewReader(sent)), w: bufio.NewWriter(&got)}
		if err := s.run(); err == nil {
			t.Error("a session ends with a reason")
		}
	})
}
