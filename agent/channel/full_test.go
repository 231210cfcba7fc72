package channel

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// fullAt has no space for those files, of the first ones, whose bit is set.
type fullAt struct {
	disk.FS
	mu    sync.Mutex
	files int
	when  uint
}

func (f *fullAt) Create(name string) (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files++
	if f.when>>(f.files-1)&1 == 1 {
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	return f.FS.Create(name)
}

// TestTheDiskIsFullNowAndThen: at any of the files that two commands need, in any combination. Each is carried out once, and its result says what came of it.
func TestTheDiskIsFullNowAndThen(t *testing.T) {
	for when := range uint(1 << 7) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.fs = &fullAt{FS: disktest.NewMem(), when: when}
			w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
			w.run(2 * time.Hour)
			if got := fmt.Sprint(w.acts.did()); got != "[device/gw-1 stop 1 device/gw-1 start 2]" || len(w.acts.resumed) > 0 {
				t.Errorf("full at %b: done %s, and asked %d times what came of it", when, got, len(w.acts.resumed))
			}
			for serial := range uint64(2) {
				if r := w.result(serial + 1); r == nil || r.Result != document.ResultDone {
					t.Errorf("full at %b: the result of %d is %+v", when, serial+1, r)
				}
			}
		})
	}
}

// TestResultsOfExpiredCommandsAreForgotten: those too of which nothing was begun.
func TestResultsOfExpiredCommandsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mem := newWorld(t), disktest.NewMem()
		w.fs = mem
		w.start()
		for n := uint64(1); n <= ordersMost+10; n++ {
			c := command(n, document.DoStop)
			c.ExpiresMs = c.CreatedMs + 1
			w.commands(n, c)
			time.Sleep(6 * time.Minute)
		}
		w.stop()
		files, err := mem.List(filepath.Join(w.dir, "fleet", resultDir))
		if err != nil || len(w.ch.ledger.Orders) != ordersMost || len(files) != ordersMost {
			t.Errorf("%d are remembered, and there are %d files (%v)", len(w.ch.ledger.Orders), len(files), err)
		}
	})
}
