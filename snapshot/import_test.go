package snapshot

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// fillFrom gives every entry of a source, tables in the order that an import wants.
func fillFrom(src pipeline.StateSource, tables []TableMeta) func(add AddEntry) error {
	tables = slices.Clone(tables)
	slices.SortFunc(tables, func(a, b TableMeta) int {
		return strings.Compare(a.UID+"\x00"+a.Spec.Name, b.UID+"\x00"+b.Spec.Name)
	})
	return func(add AddEntry) error {
		for _, t := range tables {
			_, _, err := src.Entries(t.UID, t.Spec.Name, func(key, sub, val []byte) error { return add(t.UID, t.Spec.Name, key, sub, val) })
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// TestImportedStateIsACheckpoint: state from another store goes in whole, in place of what was there; deltas go on top of it; a fill that
// fails leaves what was there; after a restart all that holds.
func TestImportedStateIsACheckpoint(t *testing.T) {
	for _, from := range storeKinds() {
		for _, to := range storeKinds() {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				ctx := t.Context()
				src := from.open(t, t.TempDir())
				defer src.Close()
				p, r := newPlant(), newRand(5)
				for range 3000 {
					randomChange(r, p, 700)
				}
				m, err := p.checkpoint(ctx, smallStore{src}, nil, 1, 1, BaseRef{})
				if err != nil {
					t.Fatal(err)
				}
				state, err := src.Load(m)
				if err != nil {
					t.Fatal(err)
				}

				dir := t.TempDir()
				dst := to.open(t, dir)
				old, parent := newPlant(), (*Manifest)(nil)
				for id := range uint64(3) {
					randomChange(r, old, 50)
					if parent, err = old.checkpoint(ctx, smallStore{dst}, parent, id+1, 1, BaseRef{}); err != nil {
						t.Fatal(err)
					}
				}
				n := *m
				n.ID, n.Oldest, n.Frames, n.Base = 4, 4, nil, BaseRef{}
				n.Tables = slices.Clone(m.Tables)
				for i := range n.Tables {
					n.Tables[i].Since = n.ID
				}
				planted := errors.New("planted")
				fill := fillFrom(state, n.Tables)
				if _, err := dst.Import(ctx, &n, func(add AddEntry) error { return errors.Join(fill(add), planted) }); !errors.Is(err, planted) {
					t.Fatal(err)
				}
				if _, err := dst.Import(ctx, &n, func(add AddEntry) error {
					return errors.Join(add("b", "t", []byte("k"), nil, nil), add("a", "t", []byte("k"), nil, nil))
				}); !errors.Is(err, errOrder) {
					t.Fatal(err)
				}
				checkManifest(t, dst, parent, old.at.get(3))
				base, err := dst.Import(ctx, &n, fill)
				if err != nil {
					t.Fatal(err)
				}
				w, err := dst.Begin(ctx, nil, n.ID)
				if err != nil {
					t.Fatal(err)
				}
				n.Base = base
				if err := w.Commit(ctx, &n); err != nil {
					t.Fatal(err)
				}
				checkManifest(t, dst, &n, p.at.get(1))
				if err := errors.Join(dst.Prune(ctx, 4), dst.Close()); err != nil {
					t.Fatal(err)
				}

				dst = to.open(t, dir)
				defer func() { _ = dst.Close() }()
				list, err := dst.List(ctx)
				if err != nil || len(list.Manifests) != 1 {
					t.Fatal(list, err)
				}
				checkManifest(t, dst, list.Manifests[0], p.at.get(1))
				for range 300 {
					randomChange(r, p, 700)
				}
				next, err := p.checkpoint(ctx, smallStore{dst}, list.Manifests[0], 5, 4, BaseRef{})
				if err != nil {
					t.Fatal(err)
				}
				checkManifest(t, dst, next, p.at.get(5))
			})
		}
	}
}
