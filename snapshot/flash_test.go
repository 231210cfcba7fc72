package snapshot

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/disk/disktest"
)

// flashLoad makes 10,000 keys of 16 bytes with 100 bytes of value, about half compressible, and checkpoints with 1 % dirty.
type flashLoad struct {
	t     *state.Table
	r     interface{ Uint64() uint64 }
	dirty uint64
}

const (
	flashKeys        = 10000
	flashDirty       = flashKeys / 100
	flashCheckpoints = 200
)

func (l *flashLoad) put(i uint64) {
	var key [16]byte
	binary.BigEndian.PutUint64(key[:], i*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(key[8:], i)
	val := make([]byte, 100)
	for j := 0; j < 50; j += 8 {
		binary.LittleEndian.PutUint64(val[j:], l.r.Uint64())
	}
	l.t.Lock()
	defer l.t.Unlock()
	if err := l.t.Put(key[:], val); err != nil {
		panic(err)
	}
	l.dirty += uint64(len(key) + len(val))
}

// TestFlashBytesPerDirtyByte: 4 KiB pages that reach the device for each dirty byte, bases and manifests included, amortised over 200
// checkpoints of the real coordinator.
func TestFlashBytesPerDirtyByte(t *testing.T) {
	mem := disktest.NewMem()
	cfg := DefaultLogConfig()
	s, err := OpenLog(t.Context(), LogOptions{FS: mem, Dir: "ck", Pipeline: testPipeline, Log: &cfg, Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &flashLoad{t: state.New(state.Spec{Name: "acc", Kind: state.Value, Type: "x", Version: 1}), r: newRand(2)}
	settings := Default()
	settings.Interval = 0
	e := &tableEngine{table: l.t}
	c, err := NewCoordinator(Options{Config: settings, Identity: testIdentity(), Store: s, Engine: e, Tasks: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	e.c = c
	if _, err := c.CommitInitial(t.Context(), Initial{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	step := func(n int, key func(i int) uint64) {
		for i := range n {
			l.put(key(i))
		}
		e.pos++
		c.Records(n)
		if _, err := c.Trigger(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step(flashKeys, func(i int) uint64 { return uint64(i) })
	step(flashDirty, func(int) uint64 { return l.r.Uint64() % flashKeys })
	pages, l0 := mem.Pages(), l.dirty
	for range flashCheckpoints {
		step(flashDirty, func(int) uint64 { return l.r.Uint64() % flashKeys })
	}
	per := float64(mem.Pages()-pages) * 4096 / float64(l.dirty-l0)
	m := c.Metrics()
	t.Logf("%.2f page bytes per dirty byte, %d merges, %d bytes of frames", per, m.Rebases, m.FrameBytes)
	if per > 2.5 {
		t.Errorf("%.2f page bytes per dirty byte, allowed are 2.5", per)
	}
	if m.Rebases < 2 {
		t.Errorf("only %d merges", m.Rebases)
	}
}

// tableEngine freezes one table at a barrier.
type tableEngine struct {
	table *state.Table
	c     *Coordinator
	pos   pipeline.Position
}

func (e *tableEngine) Inject(_ context.Context, id uint64) error {
	e.table.Lock()
	defer e.table.Unlock()
	e.c.Deliver(pipeline.TaskSnapshot{
		Task: "t", Barrier: pipeline.Barrier{ID: id, Position: e.pos},
		Parts: []pipeline.StatePart{{UID: "s", Spec: e.table.Spec(), Frozen: e.table.Freeze()}},
	})
	return nil
}
