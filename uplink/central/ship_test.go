package central

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// testBlock is a block of n records from first on; 0: positions that were left out, ten of them.
func testBlock(first, n int) *pipeline.Block {
	b := &pipeline.Block{First: pipeline.Position(first), Last: pipeline.Position(first + n - 1)}
	stamp := pipeline.Stamp{Elapsed: int64(first) * 1000, Wall: int64(first), Trusted: first%2 == 0}
	if n == 0 {
		b.Last = b.First + 9
		b.Entries = []pipeline.Entry{{Pos: b.First, Stamp: stamp, Kind: pipeline.EntryGap, Payload: []byte("left out")}}
	}
	for i := range n {
		b.Entries = append(b.Entries, pipeline.Entry{Pos: b.First + pipeline.Position(i), Stamp: stamp, Kind: pipeline.EntryMessage, QoS: 1, Dup: i%3 == 0, PacketID: uint16(first + i),
			Session: "plant", Source: "s", Topic: []byte("t/k"), Payload: fmt.Appendf(nil, "record %d", first+i)})
	}
	return b
}

// shipping ships pieces of three records, from first to last, in one chain.
func shipping(t *testing.T, w *world, first, last int) *Shipper {
	t.Helper()
	s := w.up.Shipper("j", 1, 0)
	for at := first; at <= last; at += 3 {
		if err := s.Pack([]*pipeline.Block{testBlock(at, 1), testBlock(at+1, 2)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// replayed is what a replacement appends, from above on; an error when it is not each record once and as it was.
func replayed(w *world, above uint64, plant planted) (*Replay, error) {
	f := &Fetcher{Gateway: testGateway, Bucket: w.bucket, Trust: trusted(), plant: plant}
	r, err := f.Records(w.t.Context(), "j", above)
	if err != nil || r.Last == 0 {
		return r, err
	}
	next := above + 1
	err = r.Each(w.t.Context(), nil, func(b *pipeline.Block, stamp pipeline.Stamp) error {
		for _, e := range b.Entries {
			if uint64(e.Pos) <= above {
				continue
			}
			if uint64(e.Pos) != next || !bytes.Equal(e.Payload, fmt.Appendf(nil, "record %d", next)) || e.Stamp != stamp || e.PacketID != uint16(next) {
				return fmt.Errorf("record %d is %+v", next, e)
			}
			next++
		}
		return nil
	})
	if err == nil && next != r.Last+1 {
		err = fmt.Errorf("records end at %d, told is %d", next-1, r.Last)
	}
	return r, err
}

func TestShippedRecordsAreWhatTheyWere(t *testing.T) {
	w := newWorld(t, 1)
	shipping(t, w, 1, 30)
	shipping(t, w, 10, 20) // another process began again, and came less far
	for above := range uint64(30) {
		r, err := replayed(w, above, planted{})
		if err != nil || r.Last != 30 {
			t.Fatalf("above %d: up to %d, %v", above, r.Last, err)
		}
	}
	if r, err := replayed(w, 30, planted{}); err != nil || r.Last != 0 {
		t.Errorf("nothing is behind 30: %+v, %v", r, err)
	}
	s := w.up.Shipper("j2", 1, 0)
	if err := s.Pack([]*pipeline.Block{testBlock(5, 2), testBlock(7, 0), testBlock(17, 1)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := &Fetcher{Gateway: testGateway, Bucket: w.bucket, Trust: trusted()}
	r, err := f.Records(t.Context(), "j2", 4)
	if err != nil || r.Last != 17 || r.WallMs != 17 {
		t.Fatalf("%+v, %v", r, err)
	}
	text := ""
	if err := r.Each(t.Context(), nil, func(b *pipeline.Block, _ pipeline.Stamp) error {
		text += fmt.Sprintf("%d-%d:%d ", b.First, b.Last, len(b.Entries))
		return nil
	}); err != nil || text != "5-6:2 7-16:0 17-17:1 " {
		t.Errorf("%q, %v", text, err)
	}
	if err := s.Pack([]*pipeline.Block{testBlock(19, 1)}); !errors.Is(err, ErrOrder) {
		t.Errorf("a piece with a hole before it: %v", err)
	}
}

// TestHolesInShippedRecordsAreFound: each piece in turn is gone, torn, or another's; what is replayed ends before it. A fetch that takes holes is found.
func TestHolesInShippedRecordsAreFound(t *testing.T) {
	for _, plant := range []planted{{}, {holes: true}} {
		found := 0
		for lost := range 10 {
			w := newWorld(t, 1)
			shipping(t, w, 1, 30)
			var name string
			for _, n := range w.bucket.Names("") {
				if p, err := Parse(n); err == nil && p.Kind == KindRecords && p.Last == uint64(lost*3+3) {
					name = n
				}
			}
			if err := w.bucket.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			r, err := replayed(w, 0, plant)
			if err != nil || r.Last != uint64(lost*3) || (lost < 9) != (len(r.PassedOver) > 0) {
				found++
			}
		}
		if plant.holes != (found > 0) {
			t.Errorf("%+v: %d of 10 holes were taken", plant, found)
		}
	}
}

// TestShippedRecordsAreBound: those of another journal, gateway or key do not count, and none of their bytes can be changed.
func TestShippedRecordsAreBound(t *testing.T) {
	w := newWorld(t, 1)
	shipping(t, w, 1, 3)
	name := w.bucket.Names(w.up.names.AllRecords("j"))[0]
	b, _, err := w.bucket.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	codec, _ := NewCodec()
	for i := range b {
		torn := bytes.Clone(b)
		torn[i] ^= 1
		if _, err := codec.openRecords(torn, n.SHA, trusted()); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if o, err := codec.openRecords(torn, shaOf(torn), trusted()); err == nil { // named anew by whoever may write to the store
			t.Fatalf("byte %d of %+v is not signed", i, o)
		}
		if _, err := codec.openRecords(b[:i], shaOf(b[:i]), trusted()); err == nil {
			t.Fatalf("%d bytes are taken", i)
		}
	}
	f := &Fetcher{Gateway: "other", Bucket: w.bucket, Trust: trusted()}
	if err := w.bucket.Put(t.Context(), NamesOf("other").Records("j", n.Last, n.SHA), b); err != nil {
		t.Fatal(err)
	}
	if r, err := f.Records(t.Context(), "j", 0); err != nil || r.Last != 0 || !strings.Contains(strings.Join(r.PassedOver, ""), "belongs to another") {
		t.Errorf("a piece of another gateway: %+v, %v", r, err)
	}
	f = &Fetcher{Gateway: testGateway, Bucket: w.bucket, Trust: Trust{}}
	if r, err := f.Records(t.Context(), "j", 0); err != nil || r.Last != 0 {
		t.Errorf("a key that is not trusted: %+v, %v", r, err)
	}
}

// TestShippingOverABadLink: answers are lost, puts are torn; what was told to be shipped is there.
func TestShippingOverABadLink(t *testing.T) {
	w := newWorld(t, 1)
	faults := []buckettest.Fault{buckettest.Lost, buckettest.AnswerLost, buckettest.Torn, buckettest.TornLost}
	n := 0
	w.bucket.Fault = func(r buckettest.Request) buckettest.Fault {
		if n++; r.Verb == "put" && n%3 != 0 {
			return faults[n%4]
		}
		return buckettest.None
	}
	s := w.up.Shipper("j", 1, 0)
	tries := 0
	for at := 1; at <= 30; at += 3 {
		if err := s.Pack([]*pipeline.Block{testBlock(at, 3)}); err != nil {
			t.Fatal(err)
		}
		for s.Packed() && tries < 1000 {
			tries++
			_ = s.Send(t.Context())
		}
		if r, err := replayed(w, 0, planted{}); err != nil || r.Last != uint64(at+2) {
			t.Fatalf("%d is shipped: %+v, %v", at+2, r, err)
		}
	}
	if tries < 15 {
		t.Errorf("%d tries: the test shows nothing", tries)
	}
}

// TestShippedRecordsAreCollected: what every retained upload has in its state goes, nothing else.
func TestShippedRecordsAreCollected(t *testing.T) {
	for _, plant := range []planted{{}, {keepNone: true}} {
		w := newWorld(t, 1)
		w.plant = plant
		w.start()
		if err := w.story(1); err != nil { // at 100
			t.Fatal(err)
		}
		shipping(t, w, 91, 130)
		if err := w.story(1); err != nil { // at 200: the one at 100 is still retained
			t.Fatal(err)
		}
		r, err := replayed(w, 100, planted{})
		if err != nil || (r.Last != 132) != plant.keepNone {
			t.Errorf("%+v: %+v, %v", plant, r, err)
		}
		if err := w.story(1); err != nil {
			t.Fatal(err)
		}
		if names := w.bucket.Names(w.up.names.AllRecords("j")); len(names) > 0 {
			t.Errorf("%+v: left are %v", plant, names)
		}
	}
}

// TestRecordsOfAPipelineThatLeftStay: its uploads stay in the store as long as nobody lets them go, and so do the records behind them; then they go, too.
func TestRecordsOfAPipelineThatLeftStay(t *testing.T) {
	for _, plant := range []planted{{}, {ownAlone: true}} {
		w := newWorld(t, 1)
		if err := w.story(1); err != nil { // at 100, and then it leaves
			t.Fatal(err)
		}
		shipping(t, w, 101, 129)
		other := newWorld(t, 2)
		other.bucket, other.plant, other.pipeID = w.bucket, plant, UUID{9}
		other.start()
		for range 8 { // up to 800
			if err := other.story(1); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := replayed(w, 100, planted{}); err != nil || (r.Last == 130) == plant.ownAlone {
			t.Errorf("%+v: %+v, %v", plant, r, err)
		}
		if err := Remove(t.Context(), w.bucket, testGateway, testID); err != nil {
			t.Fatal(err)
		}
		if err := other.story(1); err != nil {
			t.Fatal(err)
		}
		if names := w.bucket.Names(w.up.names.AllRecords("j")); len(names) > 0 {
			t.Errorf("%+v: left are %v", plant, names)
		}
	}
}

// TestRecordsOfAPipelineThatStandsStillStay: one on probation is not uploaded (it may be gone back from), and the others go on.
func TestRecordsOfAPipelineThatStandsStillStay(t *testing.T) {
	for _, plant := range []planted{{}, {keepNone: true}} {
		w := newWorld(t, 1)
		if err := w.story(1); err != nil { // at 100
			t.Fatal(err)
		}
		shipping(t, w, 101, 129)
		other := newWorld(t, 2)
		other.bucket, other.plant, other.pipeID = w.bucket, plant, UUID{9}
		other.start()
		if _, err := other.up.Add(testID, "p", w.spool); err != nil {
			t.Fatal(err)
		}
		for range 8 { // up to 800
			if err := other.story(1); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := replayed(w, 100, planted{}); err != nil || (r.Last == 130) == plant.keepNone {
			t.Errorf("%+v: %+v, %v", plant, r, err)
		}
		f := &Fetcher{Gateway: testGateway, Bucket: w.bucket}
		list, err := f.Shipped(t.Context())
		if plant.keepNone {
			if len(list) > 0 || err != nil {
				t.Errorf("%+v, %v", list, err)
			}
			continue
		}
		if err != nil || len(list) != 1 || list[0].Journal != "j" || list[0].Last != 130 {
			t.Fatalf("%+v, %v", list, err)
		}
		if n, bytes := list[0].Above(124); n != 2 || bytes == 0 {
			t.Errorf("%d pieces behind 124, %d bytes", n, bytes)
		}
	}
}

// TestRecordsThatNoUploadIsOfAreCollected: not while they are young, nor at first sight: a journal's first pieces may be there before a head is seen.
func TestRecordsThatNoUploadIsOfAreCollected(t *testing.T) {
	w := newWorld(t, 1)
	if err := w.story(1); err != nil {
		t.Fatal(err)
	}
	s := w.up.Shipper("lost", 1, 0)
	if err := errors.Join(s.Pack([]*pipeline.Block{testBlock(1, 3)}), s.Send(t.Context())); err != nil {
		t.Fatal(err)
	}
	left := func() int {
		w.checkpoint(5)
		if _, err := w.cut(); err != nil {
			t.Fatal(err)
		}
		if err := w.drive(); err != nil {
			t.Fatal(err)
		}
		return len(w.bucket.Names(w.up.names.AllRecords("lost")))
	}
	for range 3 {
		if left() != 1 {
			t.Fatal("they are collected while they are young")
		}
	}
	w.bucket.Advance(graceMs + 1)
	if left() != 1 {
		t.Fatal("they are collected at first sight")
	}
	if left() != 0 {
		t.Error("they stay for ever")
	}
}

func shaOf(b []byte) SHA { return sha256.Sum256(b) }
