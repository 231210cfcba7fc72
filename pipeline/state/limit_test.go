package state

import (
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func limitKey(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

// TestLimitIsThatOfOneTable: several tables with a joint limit, written in one order by one goroutine, refuse what one table refuses; and
// batches that may be worked on apart refuse nothing, as one table would not.
func TestLimitIsThatOfOneTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{Name: "t", Kind: Value, MaxKeys: rapid.IntRange(1, 12).Draw(t, "max"), TTL: rapid.SampledFrom([]int64{0, 5}).Draw(t, "ttl")}
		one := New(spec)
		parts := []*Table{New(spec), New(spec), New(spec)}
		limit := NewLimit(parts)
		now := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			keys := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 6).Draw(t, "keys")
			now += rapid.Int64Range(0, 4).Draw(t, "time")
			rows := make([]int, len(parts))
			for _, k := range keys {
				rows[k%len(parts)]++
			}
			apart := limit.Apart(rows)
			if !apart {
				limit.Together()
			}
			one.SetNow(now)
			for _, p := range parts {
				p.SetNow(now)
			}
			for _, k := range keys {
				part := parts[k%len(parts)]
				if rapid.IntRange(0, 3).Draw(t, "act") == 0 {
					if one.Delete(limitKey(k)) != part.Delete(limitKey(k)) {
						t.Fatal("a delete differs")
					}
					continue
				}
				want, got := one.Put(limitKey(k), nil), part.Put(limitKey(k), nil)
				if !errors.Is(got, want) || apart && got != nil {
					t.Fatalf("key %d, apart %v: got %v, want %v", k, apart, got, want)
				}
			}
		}
	})
}

// TestLimitFindsAStepThatMakesTooMuch: side by side nobody may make more than was allowed for.
func TestLimitFindsAStepThatMakesTooMuch(t *testing.T) {
	spec := Spec{Name: "t", Kind: Value, MaxKeys: 4}
	parts := []*Table{New(spec), New(spec)}
	if !NewLimit(parts).Apart([]int{1, 1}) {
		t.Fatal("2 of 4 keys are not too many")
	}
	defer func() {
		if recover() == nil {
			t.Error("a third entry for one row went through")
		}
	}()
	for i := range 3 {
		_ = parts[0].Put(limitKey(i), nil)
	}
}
