package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline/state"
)

// TestListsGrowThroughCheckpointsAndMerges: append-lists in both stores, with small chunks, merges and restores. What a checkpoint
// writes is what was appended since the last one; a list that has grown long costs no more than a short one.
func TestListsGrowThroughCheckpointsAndMerges(t *testing.T) {
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			ctx := t.Context()
			s, r := kind.open(t, t.TempDir()), newRand(5)
			spec := state.Spec{Name: "list", Kind: state.List, Type: "test", Version: 1}
			table := state.New(spec)
			p := newPlant()
			p.tables = []*testTable{{"t1", "s1", table}}
			lists := map[string][]string{}
			var parent *Manifest
			var base BaseRef
			for id := uint64(1); id <= 40; id++ {
				appended := 0
				for range 20 {
					key, elem := fmt.Sprint("list", r.IntN(4)), strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(90))
					if err := table.Append([]byte(key), []byte(elem)); err != nil {
						t.Fatal(err)
					}
					lists[key] = append(lists[key], elem)
					appended += len(elem)
					p.pos++
				}
				dropped := 0
				if id%5 == 0 {
					key := fmt.Sprint("list", r.IntN(4))
					dropped = table.DropFront([]byte(key), 30)
					lists[key] = lists[key][dropped:]
				}
				m, err := p.checkpoint(ctx, smallStore{s}, parent, id, max(id, 4)-3, base)
				if err != nil {
					t.Fatal(err)
				}
				written := uint64(0)
				for _, f := range m.Frames {
					if f.Checkpoint == id {
						written += f.Bytes
					}
				}
				// an element has a length, a chunk of a list its key and number, a chunk of a frame a head; a drop rewrites 512 bytes
				if most := uint64(appended) + 20*40 + uint64(dropped)*40 + 512; written > most {
					t.Fatalf("checkpoint %d writes %d bytes for %d appended, want at most %d", id, written, appended, most)
				}
				restoresLists(t, s, m, lists)
				parent, base = m, BaseRef{}
				if id%6 == 0 {
					if base, err = s.Rebase(ctx, m); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func restoresLists(t *testing.T, s Store, m *Manifest, want map[string][]string) {
	t.Helper()
	src, err := s.Load(m)
	if err != nil {
		t.Fatal(err)
	}
	var back *state.Table
	spec, _, err := src.Entries("s1", "list", func(key, sub, val []byte) error {
		if back == nil {
			back = state.New(state.Spec{Name: "list", Kind: state.List, Type: "test", Version: 1})
		}
		return back.Load(key, sub, val)
	})
	if err != nil || spec.Kind != state.List {
		t.Fatalf("checkpoint %d: %v, %v", m.ID, spec, err)
	}
	for key, elems := range want {
		var got []string
		back.RangeList([]byte(key), func(e []byte) bool { got = append(got, string(e)); return true })
		if !slices.Equal(got, elems) {
			t.Fatalf("checkpoint %d: %s has %d elements, want %d", m.ID, key, len(got), len(elems))
		}
	}
}
