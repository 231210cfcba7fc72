package offsite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/uplink/central"
)

type result = pipeline.Result

// Report tells what Fetch made.
type Report struct {
	Head       savepoint.Head
	Summary    savepoint.Summary
	Upload     *central.Manifest
	Key        string               // that signed it
	PassedOver []central.PassedOver // newer uploads that could not be read: what they had is lost
	Newer      []central.PassedOver // uploads above it that no head names
	Bytes      uint64               // fetched
}

// PartsSuffix ends the directory where pieces are kept until the file is whole: a broken link goes on where it was.
const PartsSuffix = ".parts"

// Fetch makes a savepoint file of the newest upload of a pipeline that is whole: durable and verified on return, whole or absent. Errors are those of central.Fetcher and
// savepoint.Create.
func Fetch(ctx context.Context, f *central.Fetcher, id central.UUID, fsys disk.FS, file string) (*Report, error) {
	r, err := FetchKeeping(ctx, f, id, fsys, file)
	if err != nil {
		return nil, err
	}
	return r, RemoveParts(fsys, file)
}

// RemoveParts removes the pieces that FetchKeeping has left. A repeat is harmless.
func RemoveParts(fsys disk.FS, file string) error {
	parts := Spool{fsys, file + PartsSuffix}
	err := parts.RemoveAll()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// FetchKeeping is Fetch for a pipeline that may be uploaded once more before it counts: the pieces stay until RemoveParts, so that a repeat reads only what is new.
func FetchKeeping(ctx context.Context, f *central.Fetcher, id central.UUID, fsys disk.FS, file string) (*Report, error) {
	scratch, err := OpenSpool(fsys, file+PartsSuffix)
	if err != nil {
		return nil, err
	}
	got, err := f.Fetch(ctx, id, scratch)
	if err != nil {
		if errors.Is(err, central.ErrNothing) {
			err = errors.Join(err, scratch.RemoveAll())
		}
		return nil, err
	}
	h, err := headOf(got)
	if err != nil {
		return nil, err
	}
	st := newState(got, &h)
	defer st.stop()
	sum, err := savepoint.Create(ctx, fsys, file, savepoint.Content{
		Head: h, State: st,
		Results: func(s *savepoint.Sink, each func(r *pipeline.Result) error) error {
			for i := range h.Sinks {
				if h.Sinks[i].UID == s.UID {
					return got.Results(i, each)
				}
			}
			return fmt.Errorf("BUG: no sink %s", s.UID)
		},
		Whole: st.whole,
	}, log.NewCodec(), nil)
	if err != nil {
		return nil, err
	}
	return &Report{Head: h, Summary: sum, Upload: got.Manifest, Key: central.FormatPublic(got.Key), PassedOver: got.PassedOver, Newer: got.Newer, Bytes: got.Bytes}, nil
}

// headOf joins what a plan and a manifest say. They must be of one pipeline.
func headOf(got *central.Fetched) (savepoint.Head, error) {
	m := got.Manifest
	h, err := savepoint.DecodeHead(got.Plan)
	if err != nil {
		return h, fmt.Errorf("upload %d: plan: %w", m.Serial, err)
	}
	if h.Gateway != m.Gateway || string(h.UUID) != string(m.UUID[:]) {
		return h, fmt.Errorf("upload %d: %w: its plan is of gateway %q, pipeline %q", m.Serial, central.ErrForeign, h.Gateway, h.Pipeline)
	}
	h.Writer, h.Journal, h.Checkpoint, h.Position, h.Generation = m.Writer, m.Journal, m.Checkpoint, m.Position, m.Generation
	h.Major, h.Minor, h.ElapsedNs, h.CreatedMs, h.Trusted, h.Ledger = uint64(m.Major), uint64(m.Minor), m.ElapsedNs, m.CreatedMs, m.Trusted, m.Ledger
	for _, s := range m.Sinks {
		h.Sinks = append(h.Sinks, savepoint.Sink{UID: s.UID, Generation: s.Generation, Seq: s.Seq, Chain: s.Chain, Confirmed: s.Confirmed, ChainConfirmed: s.ChainConfirmed})
	}
	return h, nil
}

// fetched is a pipeline.StateSource over what was fetched. Its tables are read once, in the order of the head.
type fetched struct {
	got  *central.Fetched
	head *savepoint.Head
	next func() (item, bool)
	stop func()
	cur  item
	any  bool
	err  error
}

type item struct {
	table         uint64
	key, sub, val []byte
}

var errStop = errors.New("no more is wanted")

func newState(got *central.Fetched, h *savepoint.Head) *fetched {
	s := &fetched{got: got, head: h}
	s.next, s.stop = iter.Pull(func(yield func(item) bool) {
		err := got.Entries(func(table uint64, key, sub, val []byte) error {
			if !yield(item{table, key, sub, val}) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			s.err = err
		}
	})
	s.cur, s.any = s.next()
	return s
}

// Sinks are the marks.
func (s *fetched) Sinks() (marks []pipeline.SinkMark) {
	for i := range s.head.Sinks {
		marks = append(marks, s.head.Sinks[i].Mark())
	}
	return marks
}

// Position is where the upload stands.
func (s *fetched) Position() pipeline.Position { return pipeline.Position(s.head.Position) }

// Entries gives the entries of the next table.
func (s *fetched) Entries(uid, name string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	for i := range s.head.Tables {
		t := &s.head.Tables[i]
		if t.UID != uid || t.Name != name {
			continue
		}
		for s.any && s.cur.table == uint64(i) {
			if err := f(s.cur.key, s.cur.sub, s.cur.val); err != nil {
				return t.Spec(), true, err
			}
			s.cur, s.any = s.next()
		}
		return t.Spec(), true, s.err
	}
	return state.Spec{}, false, nil
}

// whole says whether anything is left that belongs to no table.
func (s *fetched) whole() error {
	if s.err == nil && s.any {
		return fmt.Errorf("%w: entries of table %d, the plan has %d", central.ErrDamaged, s.cur.table, len(s.head.Tables))
	}
	return s.err
}
