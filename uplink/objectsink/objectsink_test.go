package objectsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/uplinktest"
	"github.com/weirstream/weir/uplink/wire"
)

var one = uplink.Incarnation{Major: 1}

// dirFar is a directory: the far end is the objects themselves.
type dirFar struct{ config Config }

func newDirFar(t testing.TB, compression string) *dirFar {
	return &dirFar{Config{Directory: filepath.Join(t.TempDir(), "objects"), Compression: compression}}
}

func (f *dirFar) Connect(t testing.TB, board string) uplink.Endpoint {
	c := f.config
	c.Board = board
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *dirFar) Restart(testing.TB) {}

func (f *dirFar) Held(t testing.TB, s uplink.Stream) []uplinktest.Held {
	return held(t, bucket.OpenDirectory(f.config.Directory), s)
}

// held reads every object of a stream as a consumer does: by listing, without the head.
func held(t testing.TB, from bucket.Bucket, s uplink.Stream) (all []uplinktest.Held) {
	t.Helper()
	dir := streamDir(s)
	for _, o := range objects(t, from, dir) {
		n, ok := parseName(o.Name)
		if !ok {
			continue
		}
		body, _, err := from.Get(t.Context(), dir+o.Name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := unpack(o.Name, body)
		if err != nil {
			t.Fatalf("object %s: %v", o.Name, err)
		}
		if len(lines) == 0 {
			continue
		}
		if strings.Contains(o.Name, ".csv") {
			rows, err := heldCSV(string(lines), n)
			if err != nil {
				t.Fatalf("object %s: %v", o.Name, err)
			}
			all = append(all, rows...)
			continue
		}
		err = wire.Lines(lines, n.first, n.last, func(l wire.Line) error {
			h := uplinktest.Held{Generation: n.generation, Seq: l.Seq, Last: l.Last, Gap: l.Gap, Payload: string(l.Data)}
			if l.Gap {
				h.Payload = l.Reason
			}
			all = append(all, h)
			return nil
		})
		if err != nil {
			t.Fatalf("object %s: %v", o.Name, err)
		}
	}
	slices.SortStableFunc(all, func(a, b uplinktest.Held) int {
		return int(a.Generation)*1e6 + int(a.Seq) - int(b.Generation)*1e6 - int(b.Seq)
	})
	return all
}

// objects are those below dir, by their names below it.
func objects(t testing.TB, from bucket.Bucket, dir string) (all []bucket.Object) {
	t.Helper()
	err := bucket.Each(t.Context(), from, dir, func(o bucket.Object) error {
		o.Name = strings.TrimPrefix(o.Name, dir)
		all = append(all, o)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestConformanceOfDirectory(t *testing.T) {
	for _, compression := range []string{"none", "gzip", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return newDirFar(t, compression) }, uplinktest.Options{})
		})
	}
}

// faulty puts every fault of a link and a server between a sink and its store: lost before, answer lost after, and carried
// out at some later time.
type faulty struct {
	bucket.Bucket
	rand    *rand.Rand
	percent int
	late    []func()
	counts  map[string]int
}

var errCut = errors.New("connection was cut")

// deliver carries out requests that were under way.
func (f *faulty) deliver() {
	kept := f.late[:0]
	for _, do := range f.late {
		if f.rand.IntN(3) == 0 {
			do()
			f.counts["landed late"]++
		} else {
			kept = append(kept, do)
		}
	}
	f.late = kept
}

// fault says what happens to a request: "" nothing.
func (f *faulty) fault() string {
	f.deliver()
	if f.rand.IntN(100) >= f.percent {
		return ""
	}
	k := []string{"lost", "answer lost", "late"}[f.rand.IntN(3)]
	f.counts[k]++
	return k
}

func (f *faulty) Create(ctx context.Context, name string, body []byte) error {
	body = bytes.Clone(body)
	switch f.fault() {
	case "lost":
		return errCut
	case "late":
		f.late = append(f.late, func() { _ = f.Bucket.Create(context.Background(), name, body) })
		return errCut
	case "answer lost":
		_ = f.Bucket.Create(ctx, name, body)
		return errCut
	}
	return f.Bucket.Create(ctx, name, body)
}

func (f *faulty) Replace(ctx context.Context, name, version string, body []byte) (string, error) {
	body = bytes.Clone(body)
	switch f.fault() {
	case "lost":
		return "", errCut
	case "late":
		f.late = append(f.late, func() { _, _ = f.Bucket.Replace(context.Background(), name, version, body) })
		return "", errCut
	case "answer lost":
		_, _ = f.Bucket.Replace(ctx, name, version, body)
		return "", errCut
	}
	return f.Bucket.Replace(ctx, name, version, body)
}

func (f *faulty) Get(ctx context.Context, name string) ([]byte, string, error) {
	if f.rand.IntN(100) < f.percent/3 {
		return nil, "", errCut
	}
	return f.Bucket.Get(ctx, name)
}

func row(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

// runFaulty drives senders of several incarnations over faulty stores, with another writer of the incarnation before still at
// work, and gives the first difference.
func runFaulty(t *testing.T, seed uint64, plant planted, counts map[string]int) error {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 3))
	far := newDirFar(t, "none")
	link := &faulty{Bucket: bucket.OpenDirectory(far.config.Directory), rand: rnd, percent: 25, counts: counts}
	q := uplinktest.NewQueue(1, 0)
	var want []string
	inc := one
	var before *Sink
	for round := range 4 {
		for range 30 {
			want = append(want, row(len(want)+1))
			q.Add(want[len(want)-1])
		}
		s := far.Connect(t, fmt.Sprint("board", round)).(*Sink)
		s.store, s.plant = link, plant
		var e uplink.Endpoint = s
		if before != nil {
			e = &rivals{Sink: s, old: before, rand: rnd}
		}
		if err := uplinktest.Drive(t.Context(), q, e, inc, 1, uint64(len(want))); err != nil {
			return err
		}
		before = s
		inc.Minor++
	}
	return uplinktest.Exact(far.Held(t, uplinktest.Stream()), want, nil)
}

// rivals lets an older incarnation send the same results with other cuts at the same time.
type rivals struct {
	*Sink
	old  *Sink
	rand *rand.Rand
}

func (r *rivals) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if r.rand.IntN(2) == 0 {
		c := *b
		c.Incarnation = r.old.opening.Incarnation
		if len(c.Results) > 2 {
			c.Results = c.Results[:len(c.Results)-1]
			c.Last = c.Results[len(c.Results)-1].Last
		}
		_, _ = r.old.Send(ctx, &c)
	}
	return r.Sink.Send(ctx, b)
}

func TestExactlyOnceOverEveryFault(t *testing.T) {
	base := rand.Uint64()
	t.Logf("seed %d", base)
	counts := map[string]int{}
	for i := range uint64(15) {
		if err := runFaulty(t, base+i, planted{}, counts); err != nil {
			t.Fatalf("seed %d: %v", base+i, err)
		}
	}
	t.Logf("faults %v", counts)
	for _, k := range []string{"lost", "answer lost", "late", "landed late"} {
		if counts[k] == 0 {
			t.Errorf("fault %q never came", k)
		}
	}
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for name, plant := range map[string]planted{
		"TestRule16_claim counts as landed":    {trustClaim: true},
		"TestRule16_cut is not fixed":          {dropClaim: true},
		"TestRule23_older incarnation goes on": {noFence: true, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(30) {
				if err := runFaulty(t, seed, plant, map[string]int{}); err != nil {
					t.Logf("found with seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("the planted fault was not found")
		})
	}
}

func TestNamesTellHourAndRange(t *testing.T) {
	c := &claim{Generation: 3, First: 5, Last: 10}
	if got, want := objectName(c, 1764450123456, 7, ".jsonl.zst"), "dt=2025-11-29/hr=21/0000000003-00000000000000000005-00000000000000000010-000000000007.jsonl.zst"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := objectName(c, pipeline.NoTime, 7, ".jsonl"); !strings.HasPrefix(got, "dt=none/hr=none/") {
		t.Error(got)
	}
	if got, want := streamDir(uplink.Stream{Gateway: "..", Pipeline: "a/b", Sink: "_é"}), "~2E./a~2Fb/~5F~C3~A9/"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint64Range(1, 1<<63).Draw(t, "first")
		c := &claim{Generation: rapid.Uint64Range(1, 1<<40).Draw(t, "generation"), First: first, Last: first + rapid.Uint64Range(0, 1<<20).Draw(t, "more")}
		number := rapid.Uint64().Draw(t, "number")
		n, ok := parseName(objectName(c, rapid.Int64().Draw(t, "at"), number, ".jsonl"))
		if !ok || n.generation != c.Generation || n.first != c.First || n.last != c.Last || n.number != number {
			t.Fatalf("%+v, %v of %+v", n, ok, c)
		}
	})
}
