package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// RestoreOptions say which checkpoints may be restored. Store and Pipeline are required.
type RestoreOptions struct {
	Store    Store
	Pipeline UUID
	// Incarnations are those of the pipeline's own lineage (RULES 25); nil: any.
	Incarnations []Incarnation
	// Whole checks the outbox ranges of a checkpoint (RULES 10); nil: no sinks. ErrUnanswered ends the restore, any other error passes the checkpoint over.
	Whole func([]OutboxRange) error
	// JournalFirst is the journal's first record, JournalNext the position the next record will get. A checkpoint that
	// needs records below First, or stands at or beyond Next, is not restored (RULES 12, 8). 0: not known.
	JournalFirst, JournalNext pipeline.Position
	// Accept may refuse a checkpoint for another reason, such as a plan or type that does not fit: Restore then ends with
	// that error, since an older checkpoint would not fit better. nil: accept.
	Accept func(*Manifest) error
	// AllowEmpty: when no checkpoint is valid, set all of them aside and start empty instead of refusing.
	AllowEmpty bool
	Logger     *slog.Logger
}

// Restored is the outcome of Restore.
type Restored struct {
	Manifest  *Manifest // nil: start empty, CommitInitial comes next
	Source    pipeline.StateSource
	Fallbacks []Fallback // newer checkpoints that were passed over, newest first
}

// Fallback is a checkpoint that Restore did not take.
type Fallback struct {
	ID       uint64
	Reason   string
	SetAside bool // false: it belongs to another lineage and was left alone
}

// Restore finds the newest valid checkpoint. Those it passes over are set aside durably before it returns, and before
// that it changes nothing else, so that the caller may cut the outbox to the checkpoint's marks next (RULES 9). It returns
// ErrNoCheckpoint for a new pipeline, and ErrNoValidCheckpoint when there are checkpoints and none is valid, unless AllowEmpty.
// A checkpoint that a newer agent wrote is not damage: Restore ends with ErrVersion or ErrFlags and sets nothing aside.
func Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	list, err := o.Store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	for _, d := range list.Damage {
		o.Logger.Warn("checkpoint store is damaged", "what", d)
	}
	if list.Fresh {
		return nil, fmt.Errorf("restore: %w", ErrNoCheckpoint)
	}
	r := &Restored{}
	for _, b := range list.Bad {
		if b.Newer {
			return nil, fmt.Errorf("restore checkpoint %d: %w", b.ID, &reasoned{b.Reason, ErrVersion})
		}
		r.Fallbacks = append(r.Fallbacks, Fallback{ID: b.ID, Reason: b.Reason, SetAside: true})
	}
	for _, m := range list.Manifests {
		if !o.ownLineage(m) {
			r.Fallbacks = append(r.Fallbacks, Fallback{ID: m.ID, Reason: "belongs to another lineage: pipeline " + m.Pipeline.String() + ", incarnation " + m.Incarnation.String()})
			continue
		}
		reason, err := o.judge(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("restore checkpoint %d: %w", m.ID, err)
		}
		if reason == "" {
			r.Manifest = m
			break
		}
		r.Fallbacks = append(r.Fallbacks, Fallback{ID: m.ID, Reason: reason, SetAside: true})
	}
	if r.Manifest == nil && !o.AllowEmpty {
		return nil, r.refuse(list)
	}
	return r, r.settle(ctx, o)
}

func (o *RestoreOptions) ownLineage(m *Manifest) bool {
	if m.Pipeline != o.Pipeline {
		return false
	}
	if o.Incarnations == nil {
		return true
	}
	for _, i := range o.Incarnations {
		if i == m.Incarnation {
			return true
		}
	}
	return false
}

// reasoned is an error whose words were written down before.
type reasoned struct {
	text string
	is   error
}

func (r *reasoned) Error() string { return r.text }
func (r *reasoned) Unwrap() error { return r.is }

// judge gives the reason why a checkpoint is not valid, "" when it is. The cheap checks come first.
func (o *RestoreOptions) judge(ctx context.Context, m *Manifest) (reason string, err error) {
	switch {
	case o.JournalFirst != 0 && m.Position+1 < o.JournalFirst:
		return fmt.Sprintf("stands at position %d, the journal begins at %d", m.Position, o.JournalFirst), nil
	case o.JournalNext != 0 && m.Position >= o.JournalNext:
		return fmt.Sprintf("stands at position %d, beyond the journal's last record %d", m.Position, o.JournalNext-1), nil
	}
	if err := o.Store.Verify(ctx, m); err != nil {
		if isDamage(err) {
			return err.Error(), nil
		}
		return "", err // the device does not answer, or ctx ended: that says nothing about the checkpoint
	}
	if o.Whole != nil {
		if err := o.Whole(m.Outbox); errors.Is(err, ErrUnanswered) {
			return "", fmt.Errorf("outbox: %w", err)
		} else if err != nil {
			return "outbox: " + err.Error(), nil
		}
	}
	if o.Accept != nil {
		return "", o.Accept(m)
	}
	return "", nil
}

func isDamage(err error) bool {
	for _, d := range []error{ErrMagic, ErrChecksum, ErrCorrupt, ErrMissing} {
		if errors.Is(err, d) {
			return true
		}
	}
	return false
}

// refuse is the one clear line.
func (r *Restored) refuse(list Listing) error {
	var why []string
	for _, f := range r.Fallbacks {
		why = append(why, fmt.Sprintf("%d: %s", f.ID, f.Reason))
	}
	for _, a := range list.SetAside {
		why = append(why, fmt.Sprintf("%d: set aside before: %s", a.ID, a.Reason))
	}
	if len(why) == 0 {
		why = list.Damage
	}
	return fmt.Errorf("restore: %w, %d tried (%s); the pipeline starts empty only when that is allowed explicitly",
		ErrNoValidCheckpoint, len(r.Fallbacks)+len(list.SetAside), strings.Join(why, "; "))
}

// settle sets aside what was passed over and is newer than what was found, or all of it when nothing was found.
func (r *Restored) settle(ctx context.Context, o RestoreOptions) error {
	for _, f := range r.Fallbacks {
		if !f.SetAside {
			continue
		}
		if err := o.Store.SetAside(ctx, f.ID, f.Reason); err != nil {
			return fmt.Errorf("set checkpoint %d aside: %w", f.ID, err)
		}
		o.Logger.Error("checkpoint set aside", "id", f.ID, "reason", f.Reason)
	}
	if r.Manifest == nil {
		return nil
	}
	var err error
	if r.Source, err = o.Store.Load(r.Manifest); err != nil {
		return fmt.Errorf("restore checkpoint %d: %w", r.Manifest.ID, err)
	}
	o.Logger.Info("checkpoint restored", "id", r.Manifest.ID, "position", uint64(r.Manifest.Position), "passed_over", len(r.Fallbacks))
	return nil
}
