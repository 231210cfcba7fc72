package snapshot

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/log"
)

// tight is a disk on which less is free than the log is to leave free, and more than it needs.
type tight struct{ disk.FS }

func (tight) Free(string) (int64, error) { return 1 << 20, nil }

// TestFirstCheckpointUsesTheReserve: a pipeline begins on a full disk.
func TestFirstCheckpointUsesTheReserve(t *testing.T) {
	begin := func(bugs storeFaults) error {
		cfg := DefaultLogConfig()
		cfg.SegmentBytes, cfg.SegmentBytesMin, cfg.MaxBytes, cfg.ReserveBytes = testLogSegment, 0, 1<<20, 2<<20
		s, err := OpenLog(t.Context(), LogOptions{FS: tight{disktest.NewMem()}, Dir: "ck", Pipeline: testPipeline, Log: &cfg, Logger: discard()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.bugs = bugs
		st := &stand{t: t, e: &fakeEngine{p: newPlant()}, o: &fakeOutbox{}, j: &fakeJournal{first: 1}, s: s, res: make(chan error, 1)}
		st.build(testConfig(), nil)
		_, err = st.c.CommitInitial(t.Context(), Initial{})
		return err
	}
	if err := begin(storeFaults{}); err != nil {
		t.Errorf("a first checkpoint on a full disk: %v", err)
	}
	if err := begin(storeFaults{noReserve: true}); !errors.Is(err, log.ErrFull) {
		t.Errorf("the planted fault was not found: %v", err)
	}
}
