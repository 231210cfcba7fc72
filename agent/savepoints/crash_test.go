package savepoints_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/store/outbox"
)

const (
	orderFile = "/p/restore.json"
	saveFile  = "/save/a.savepoint"
)

var (
	codec    = log.NewCodec()
	identity = snapshot.UUID{1, 2, 3}
)

// stores are those of one pipeline on a disk.
type stores struct {
	store snapshot.Store
	box   *outbox.Outbox
	queue *outbox.Stream
}

func openStores(fsys disk.FS) (s stores, err error) {
	cfg := snapshot.DefaultLogConfig()
	cfg.SegmentBytes, cfg.MaxBytes = 64<<10, 4<<20
	if s.store, err = snapshot.OpenLog(context.Background(), snapshot.LogOptions{FS: fsys, Dir: "/p/checkpoints", Pipeline: identity, Log: &cfg, Codec: codec}); err != nil {
		return s, err
	}
	o := outbox.Default()
	o.Log.SegmentBytes, o.Log.SegmentBytesMin, o.Log.MaxBytes, o.Log.ReserveBytes = 64<<10, 16<<10, 4<<20, 0
	if s.box, _, err = outbox.Open(outbox.Options{FS: fsys, Dir: "/p/outbox", Config: o, Codec: codec}); err != nil {
		return s, err
	}
	s.queue, err = s.box.Stream("k", outbox.StreamOptions{})
	return s, err
}

func (s *stores) close() { _, _ = s.box.Close(), s.store.Close() }

// life is the pipeline: state and results are functions of the position.
type life struct {
	stores
	table  *state.Table
	parent *snapshot.Manifest
	pos    uint64
	chain  uint64
}

// text is what is made of a position: it does not compress, so that files have more than one sector.
func text(n uint64) []byte {
	b := fmt.Append(nil, n)
	for r := n; len(b) < 400; r = r*6364136223846793005 + 1442695040888963407 {
		b = fmt.Appendf(b, " %x", r>>16)
	}
	return b
}

// runTo makes a result and changes an entry per position, and a checkpoint at the end.
func (l *life) runTo(pos uint64) error {
	ctx := context.Background()
	for ; l.pos < pos; l.pos++ {
		n := l.pos + 1
		l.chain += n
		if err := l.queue.Emit(ctx, []pipeline.Result{{Seq: n, Last: n, Chain: l.chain, Pos: pipeline.Position(n), Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: text(n)}}); err != nil {
			return err
		}
		l.table.Lock()
		err := l.table.Put(fmt.Append(nil, "key ", n%7), text(n))
		l.table.Unlock()
		if err != nil {
			return err
		}
	}
	id := l.store.LastID() + 1
	b := pipeline.Barrier{ID: id, Position: pipeline.Position(pos)}
	if err := l.queue.Barrier(ctx, b); err != nil {
		return err
	}
	ranges, err := l.box.Seal(ctx, b)
	if err != nil {
		return err
	}
	w, err := l.store.Begin(ctx, l.parent, id)
	if err != nil {
		return err
	}
	defer w.Abort()
	l.table.Lock()
	part := pipeline.StatePart{UID: "w", Spec: l.table.Spec(), Frozen: l.table.Freeze()}
	l.table.Unlock()
	if err := w.Write(ctx, "t", []pipeline.StatePart{part}); err != nil {
		return err
	}
	m := &snapshot.Manifest{
		Pipeline: identity, ID: id, Oldest: id, Position: pipeline.Position(pos), Generation: 1, Tasks: []string{"t"},
		Tables: []snapshot.TableMeta{{UID: "w", Spec: part.Spec, Since: 1}},
		Sinks:  []pipeline.SinkMark{{UID: "k", Generation: 1, Seq: pos, Chain: l.chain}},
	}
	for _, r := range ranges {
		m.Outbox = append(m.Outbox, snapshot.OutboxRange{UID: r.UID, Generation: r.Generation, Confirmed: r.Confirmed, Last: r.Last, Chain: r.ChainConfirmed})
	}
	if l.parent != nil {
		m.Parent = l.parent.ID
	}
	if err := w.Commit(ctx, m); err != nil {
		return err
	}
	part.Frozen.Commit()
	l.parent = m
	l.box.Released(id)
	return nil
}

// standing tells where the pipeline of a disk goes on, from all that is there: "position: state; results that wait".
func standing(s *stores) (string, error) {
	ctx := context.Background()
	r, err := snapshot.Restore(ctx, snapshot.RestoreOptions{Store: s.store, Pipeline: identity, Whole: func(list []snapshot.OutboxRange) error {
		var ranges []outbox.Range
		for _, r := range list {
			ranges = append(ranges, outbox.Range{UID: r.UID, Generation: r.Generation, Confirmed: r.Confirmed, Last: r.Last, ChainConfirmed: r.Chain})
		}
		return s.box.Whole(ranges)
	}})
	if err != nil {
		return "", err
	}
	if err := s.box.Cut(ctx, r.Manifest.Sinks, outbox.Incarnation{Major: 1}); err != nil {
		return "", err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d:", r.Manifest.Position)
	if _, _, err := r.Source.Entries("w", "t", func(key, _, val []byte) error { fmt.Fprintf(&b, " %s=%s", key, val); return nil }); err != nil {
		return "", err
	}
	b.WriteString(";")
	pin := s.box.Pin()
	defer pin.Release()
	err = pin.Copy(ctx, "k", r.Manifest.Sinks[0].Seq, func(r *pipeline.Result) error { fmt.Fprintf(&b, " %d=%s", r.Seq, r.Payload); return nil })
	return b.String(), err
}

// restore carries an order out, if there is one, and takes it back. With forget it takes it back too early.
func restore(fsys disk.FS, s *stores, forget bool) error {
	if _, err := disk.ReadFile(fsys, orderFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	remove := func() error { return errors.Join(fsys.Remove(orderFile), fsys.SyncDir("/p")) }
	if forget {
		if err := remove(); err != nil {
			return err
		}
	}
	f, err := openSavepoint(fsys)
	if err != nil {
		return err
	}
	_, err = savepoints.Restore(context.Background(), f, savepoints.Into{
		Store: s.store, Outbox: s.box, Pipeline: identity, Incarnation: snapshot.Incarnation{Major: 1}, Sinks: []string{"k"},
		Position: f.Position(), Generation: 1, Take: func(uid string) (string, bool) { return uid, true },
	})
	if err != nil || forget {
		return err
	}
	return remove()
}

func openSavepoint(fsys disk.FS) (*savepoint.File, error) {
	b, err := disk.ReadFile(fsys, saveFile)
	if err != nil {
		return nil, err
	}
	return savepoint.Open(context.Background(), bytes.NewReader(b), int64(len(b)), codec, nil)
}

// prepared is a disk with a pipeline at 40 and its savepoint at 20; saved and now say how it stands at each.
func prepared(t *testing.T) (m *disktest.Mem, saved, now string) {
	t.Helper()
	m = disktest.NewMem()
	if err := m.MkdirAll("/p"); err != nil {
		t.Fatal(err)
	}
	s, err := openStores(m)
	if err != nil {
		t.Fatal(err)
	}
	l := &life{stores: s, table: state.New(state.Spec{Name: "t", Kind: state.Value, Type: "x", Version: 1})}
	ctx := t.Context()
	if err := s.box.Cut(ctx, []pipeline.SinkMark{{UID: "k", Generation: 1}}, outbox.Incarnation{Major: 1}); err != nil {
		t.Fatal(err)
	}
	if err := l.runTo(20); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.queue.Seek(1, 5, 15); err != nil {
		t.Fatal(err)
	}
	_, sum, err := savepoints.Take(ctx, m, saveFile, savepoints.Running{
		Hold: func(context.Context) (snapshot.Checkpoint, func(), error) {
			return snapshot.Checkpoint{ID: l.parent.ID, Position: l.parent.Position, Manifest: l.parent}, func() {}, nil
		},
		Store: s.store, Outbox: s.box, Graph: &plan.Graph{}, Codec: codec,
	}, nil)
	if err != nil || sum.Entries != 7 || sum.Results != 15 {
		t.Fatal(sum, err)
	}
	if saved, err = standing(&s); err != nil {
		t.Fatal(err)
	}
	if err := l.runTo(40); err != nil {
		t.Fatal(err)
	}
	if now, err = standing(&s); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.queue.Seek(1, 8, 36); err != nil { // upstream goes on taking results
		t.Fatal(err)
	}
	s.close()
	return m, saved, now
}

// TestRestoreIsDoneWholeOrNotAtAll: power may be cut at any instant from the order to its end. What starts then stands at the savepoint, or, as long as
// the order was not given, where it stood. The planted fault, an order that is taken back before the checkpoint is durable, is found by
// the same.
func TestRestoreIsDoneWholeOrNotAtAll(t *testing.T) {
	run := func(forget bool) (bad map[string]int, states int) {
		m, saved, now := prepared(t)
		bad = map[string]int{}
		c := disktest.Crasher{Seed: 1, PerCall: 64}
		ordered := uint64(0)
		look := func(op string) {
			c.Images(m, ordered, func(img *disktest.Mem) {
				s, err := openStores(img)
				got := ""
				if err == nil {
					if err = restore(img, &s, false); err == nil {
						got, err = standing(&s)
					}
					s.close()
				}
				if got, saved := tail(got), tail(saved); err != nil || got != saved && (ordered == 1 || got != tail(now)) {
					bad[fmt.Sprintf("%s: %s %v", op, got, err)]++
				}
			})
		}
		m.OnOp(look)
		if err := disk.WriteFileAtomic(m, orderFile, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		ordered = 1
		s, err := openStores(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := restore(m, &s, forget); err != nil {
			t.Fatal(err)
		}
		m.OnOp(nil)
		look("done")
		s.close()
		return bad, c.Distinct()
	}
	if bad, states := run(false); len(bad) > 0 || states < 30 {
		t.Errorf("%d states; bad: %v", states, bad)
	}
	if bad, _ := run(true); len(bad) == 0 {
		t.Error("an order that is taken back too early is not found")
	}
}

// tail is a standing without the results that upstream may be known to hold or not: from 9 on.
func tail(s string) string {
	head, results, _ := bytes.Cut([]byte(s), []byte(";"))
	if i := bytes.Index(results, []byte(" 9=")); i >= 0 {
		results = results[i:]
	}
	return string(head) + ";" + string(results)
}
