package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/outbox"
)

// slowJournal is durable up to where the last sync came.
type slowJournal struct {
	last, durable pipeline.Position
	syncs         int
	err           error
}

func (j *slowJournal) Durable() pipeline.Position { return j.durable }
func (j *slowJournal) Sync(context.Context) error {
	if j.syncs++; j.err == nil {
		j.durable = j.last
	}
	return j.err
}

// TestRule8_NoCheckpointStandsAheadOfTheJournal: with mode at-least-once a pipeline works on records that are not synced yet. A checkpoint behind
// them is begun only when they are durable, and fails when they cannot become so.
func TestRule8_NoCheckpointStandsAheadOfTheJournal(t *testing.T) {
	o, _, err := outbox.Open(outbox.Options{FS: disktest.NewMem(), Dir: "/outbox", Config: outbox.Default()})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := o.Cut(t.Context(), nil, outbox.Incarnation{Major: 1}); err != nil {
		t.Fatal(err)
	}
	j := &slowJournal{last: 10, durable: 5}
	s := sealer{Outbox: o, journal: j}
	if _, err := s.Seal(t.Context(), pipeline.Barrier{ID: 1, Position: 5}); err != nil || j.syncs != 0 {
		t.Fatalf("a barrier at what is durable: %v, %d syncs", err, j.syncs)
	}
	s.hasty = true
	if _, err := s.Seal(t.Context(), pipeline.Barrier{ID: 2, Position: 8}); err != nil || j.durable >= 8 {
		t.Fatalf("the planted fault has no effect: %v", err)
	}
	s.hasty = false
	if _, err := s.Seal(t.Context(), pipeline.Barrier{ID: 2, Position: 8}); err != nil || j.durable < 8 {
		t.Fatalf("sealed with the journal durable up to %d: %v", j.durable, err)
	}
	j.last, j.err = 20, errors.New("device is gone")
	if _, err := s.Seal(t.Context(), pipeline.Barrier{ID: 3, Position: 12}); !errors.Is(err, j.err) {
		t.Fatalf("got %v", err)
	}
}
