package agent

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/store/disk"
)

// tight is a disk that says how much is free below a directory.
type tight struct {
	disk.FS
	below string
	free  atomic.Int64
}

// Free implements disk.FS.
func (d *tight) Free(dir string) (int64, error) {
	if strings.HasPrefix(dir, d.below) {
		return d.free.Load(), nil
	}
	return d.FS.Free(dir)
}

// onTightDisk is an agent with the default reserve, of which so much is free.
func onTightDisk(t *testing.T, store string, free int64) (*bench, *tight) {
	t.Helper()
	b := newBench(t, pipelineNamed("p", store))
	b.text = strings.Replace(b.text, "reserve: 0", "reserve: 64MiB", 1)
	b.unkept = true
	d := &tight{FS: disk.OS, below: b.dir}
	d.free.Store(free)
	disk.OS = d
	t.Cleanup(func() { disk.OS = d.FS })
	return b, d
}

// TestNewPipelineStartsOnAFullDisk: whatever is free, a new pipeline gets its first checkpoint and runs; with space again it works.
func TestNewPipelineStartsOnAFullDisk(t *testing.T) {
	for _, free := range []int64{6 << 20, 20 << 20, 40 << 20, 64 << 20} {
		b, d := onTightDisk(t, "log", free)
		b.start()
		s := b.await("it runs, and tells that the disk is full", func(s *api.Status) bool {
			return s.Pipelines[0].State == "running" && s.Pipelines[0].Checkpoint.ID > 0 && s.Journal.Full && len(s.Problems) > 0
		})
		if s.Pipelines[0].Restarts > 0 {
			t.Errorf("%d MiB free: it restarted: %+v", free>>20, s.Pipelines[0])
		}
		d.free.Store(1 << 30)
		b.await("there is space again", func(s *api.Status) bool { return !s.Journal.Full })
		b.put(1, 20)
		b.await("all is delivered", at(20))
		b.halt()
		b.wantIDs("p", [2]int{1, 20})
		disk.OS = d.FS
	}
}

// TestAFullJournalIsLetGo: a journal that comes to its reserve keeps no checkpoint from being written, which is what lets it trim; one reserve for all logs, planted, does.
func TestAFullJournalIsLetGo(t *testing.T) {
	b, d := onTightDisk(t, "log", 1<<30)
	full := func(first, last int, done func(s *api.Status) bool) {
		b.start()
		b.await("it runs", settled)
		if err := b.agent.StopPipeline(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		b.put(first, last)
		b.end()
		d.free.Store(64 << 20) // as the journal leaves it
		b.start()
		b.await("the end", done)
		d.free.Store(1 << 30)
		b.await("all is delivered", at(uint64(last)))
		b.halt()
	}
	full(1, 40, func(s *api.Status) bool {
		c := s.Pipelines[0].Checkpoint
		return s.Journal.Full && at(40)(s) && c.Position >= 40 && c.InARow == 0
	})
	b.options.oneReserve = true
	full(41, 80, func(s *api.Status) bool { return s.Pipelines[0].Checkpoint.InARow >= 3 })
	b.wantIDs("p", [2]int{1, 80})
}
