//go:build !arm && !386

package powercut

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// A plug is a disk that is shown as a file, and the machine that it is plugged into.
type plug struct {
	fs.Inode
	disk *volatiledisk.Disk
	// flushTakes is how long a flush lasts, as on an SD card: what is written meanwhile is volatile, and a cut meets it.
	flushTakes time.Duration
	off        chan struct{} // closed when nobody who asked can see an answer any more
	once       sync.Once
	trap       atomic.Pointer[trap]
}

// A trap stops the disk at one request: a write that is volatile and not answered yet, or a flush that has made nothing durable yet.
type trap struct {
	left     atomic.Int64
	flushes  bool // they alone count
	caught   chan struct{}
	released chan struct{}
}

// catch lays a trap for the n-th request from now.
func (p *plug) catch(n int64, flushes bool) *trap {
	t := &trap{flushes: flushes, caught: make(chan struct{}), released: make(chan struct{})}
	t.left.Store(n)
	p.trap.Store(t)
	return t
}

// release takes the trap away and lets the request go on.
func (p *plug) release(t *trap) {
	p.trap.Store(nil)
	close(t.released)
}

// pass is where a request may be caught.
func (p *plug) pass(flush bool) {
	t := p.trap.Load()
	if t == nil || t.flushes && !flush || t.left.Add(-1) != 0 {
		return
	}
	close(t.caught)
	select {
	case <-t.released:
	case <-time.After(rig.Patience): // a test that forgot it would never end
	}
}

// switchOff lets requests to a disk whose power is cut fail. Before, they have no answer at all: a machine without power gets none.
func (p *plug) switchOff() { p.once.Do(func() { close(p.off) }) }

// answer turns an error of the disk into one of FUSE.
func (p *plug) answer(err error) syscall.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, volatiledisk.ErrCut):
		select {
		case <-p.off:
		case <-time.After(rig.Patience): // else a test that forgot to switch off would never end
		}
	}
	return syscall.EIO
}

func (p *plug) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size, out.Blksize = 0o600, uint64(p.disk.Size()), 4096
	return 0
}

func (p *plug) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return p.Getattr(ctx, h, out)
}

// Open goes round the page cache: a write is a request to the disk when it returns, never later.
func (p *plug) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (p *plug) Read(_ context.Context, _ fs.FileHandle, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n := max(0, min(int64(len(b)), p.disk.Size()-off))
	_, err := p.disk.ReadAt(b[:n], off)
	return fuse.ReadResultData(b[:n]), p.answer(err)
}

func (p *plug) Write(_ context.Context, _ fs.FileHandle, b []byte, off int64) (uint32, syscall.Errno) {
	n, err := p.disk.WriteAt(b, off)
	p.pass(false)
	return uint32(n), p.answer(err)
}

// Fsync is what the loop device makes of a flush.
func (p *plug) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	p.pass(true)
	time.Sleep(p.flushTakes)
	return p.answer(p.disk.Flush())
}

// Allocate is what the loop device makes of a discard, and of zeros.
func (p *plug) Allocate(_ context.Context, _ fs.FileHandle, off, size uint64, mode uint32) syscall.Errno {
	if mode&(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_ZERO_RANGE) == 0 {
		return syscall.EOPNOTSUPP
	}
	return p.answer(p.disk.Zero(int64(off), int64(size)))
}

// shelf is the FUSE file system whose files are disks.
type shelf struct {
	dir    string
	root   *fs.Inode
	server *fuse.Server

	mu   sync.Mutex
	next int
}

func newShelf(dir string) (*shelf, error) {
	s := &shelf{dir: dir, root: &fs.Inode{}}
	forever := 24 * time.Hour // sizes never change, and no name comes again
	server, err := fs.Mount(dir, s.root, &fs.Options{
		AttrTimeout: &forever, EntryTimeout: &forever,
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "powercut", Name: "powercut", MaxWrite: 1 << 20, DisableXAttrs: true},
	})
	if err != nil {
		return nil, fmt.Errorf("mount FUSE: %w", err)
	}
	s.server = server
	if err := keepFromChildren("/dev/fuse"); err != nil {
		return nil, errors.Join(err, server.Unmount())
	}
	return s, nil
}

// keepFromChildren closes what is open of a device in programs that are started from now on. go-fuse leaves it open: the kernel ends a FUSE whose server died when nobody has it open any
// more, and an agent that waits for this very disk would never die.
func keepFromChildren(device string) error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("find what is open: %w", err)
	}
	found := false
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && name == device {
			unix.CloseOnExec(fd)
			found = true
		}
	}
	if !found {
		return fmt.Errorf("%s is not open", device)
	}
	return nil
}

// put shows a disk as a file.
func (s *shelf) put(p *plug) (file string) {
	s.mu.Lock()
	s.next++
	name := fmt.Sprintf("disk%d-%d", s.next, os.Getpid())
	s.mu.Unlock()
	s.root.AddChild(name, s.root.NewPersistentInode(context.Background(), p, fs.StableAttr{Mode: syscall.S_IFREG}), true)
	return name
}

func (s *shelf) remove(name string) { s.root.RmChild(name) }

func (s *shelf) close() error { return s.server.Unmount() }
