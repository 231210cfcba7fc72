package log

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestAgainstModel runs random operations on a log and on a map.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := small()
		c.Compress = rapid.Bool().Draw(rt, "compress")
		c.TailBytes = rapid.SampledFrom([]int{0, 1000, 1 << 20}).Draw(rt, "tail")
		m := disktest.NewMem()
		model := map[uint64]string{}
		last, trimmed := uint64(0), uint64(0)
		var l *Log
		reopen := func() {
			if l != nil {
				if err := l.Close(); err != nil {
					rt.Fatal(err)
				}
			}
			var rec *Recovery
			var err error
			if l, rec, err = open(Options{FS: m, Dir: "/log", Config: c}, faults{frameRaw: 1500}); err != nil || len(rec.Lost) > 0 || rec.TornBytes > 0 {
				rt.Fatal(err, rec)
			}
		}
		reopen()
		defer func() { _ = l.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				rec := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(rt, "record")
				cut := rapid.IntRange(0, len(rec)).Draw(rt, "cut")
				pos, err := l.Append(rec[:cut], rec[cut:])
				if err != nil || pos != last+1 {
					rt.Fatal(pos, err)
				}
				last = pos
				model[pos] = string(rec)
			},
			"append all": func(rt *rapid.T) {
				recs := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 3000), 1, 40).Draw(rt, "records")
				for done := 0; done < len(recs); {
					first, n, err := l.AppendAll(len(recs)-done, func(i int) int { return len(recs[done+i]) },
						func(dst []byte, i int) []byte { return append(dst, recs[done+i]...) })
					if err != nil || n < 1 || first != last+1 {
						rt.Fatal(first, n, err)
					}
					for range n {
						last++
						model[last] = string(recs[done])
						done++
					}
				}
			},
			"sync": func(rt *rapid.T) {
				if err := l.Sync(t.Context()); err != nil || l.Durable() != last {
					rt.Fatal(err, l.Durable())
				}
			},
			"trim": func(rt *rapid.T) {
				before := rapid.Uint64Range(0, last+2).Draw(rt, "before")
				if err := l.Trim(before); err != nil {
					rt.Fatal(err)
				}
				trimmed = max(trimmed, before)
			},
			"reopen": func(*rapid.T) { reopen() },
			"read": func(rt *rapid.T) {
				if last == 0 {
					rt.Skip()
				}
				if err := l.Sync(t.Context()); err != nil {
					rt.Fatal(err)
				}
				from := rapid.Uint64Range(l.First(), last).Draw(rt, "from")
				recs, lost := readAll(t, l, from)
				if len(lost) > 0 || uint64(len(recs)) != last+1-from {
					rt.Fatal(len(recs), lost)
				}
				for pos, rec := range recs {
					if model[pos] != rec {
						rt.Fatalf("record %d", pos)
					}
				}
			},
			"read back": func(rt *rapid.T) {
				if err := l.Sync(t.Context()); err != nil {
					rt.Fatal(err)
				}
				at, limit := last, rapid.Uint64Range(0, last).Draw(rt, "limit")
				if err := l.ReadBack(func(b *Block) (bool, error) {
					if b.Last != at {
						rt.Fatalf("block %d to %d, want one that ends at %d", b.First, b.Last, at)
					}
					for pos, rec := range b.Records() {
						if model[pos] != string(rec) {
							rt.Fatalf("record %d", pos)
						}
					}
					at = b.First - 1
					return at > limit, nil
				}); err != nil {
					rt.Fatal(err)
				}
				if at > limit && at+1 != l.First() {
					rt.Fatalf("read back to %d, first is %d", at+1, l.First())
				}
			},
			"": func(rt *rapid.T) {
				if l.Last() != last || l.First() > max(trimmed, 1) {
					rt.Fatalf("first %d, last %d, want last %d, trimmed below %d", l.First(), l.Last(), last, trimmed)
				}
			},
		})
	})
}
