package central

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// TestRecordLargerThanAPiece: a record of 32 MiB, the most that max_message allows, is shipped, read back and comes again, whether it shrinks or not.
func TestRecordLargerThanAPiece(t *testing.T) {
	noise := make([]byte, 32<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for name, payload := range map[string][]byte{"noise": noise, "one byte": make([]byte, 32<<20)} {
		w := newWorld(t, 1)
		s := w.up.Shipper("j", 1, 0)
		before, large := testBlock(1, 2), testBlock(3, 1)
		large.Entries[0].Payload = payload
		if err := errors.Join(s.Pack([]*pipeline.Block{before, large}), s.Send(t.Context())); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f := &Fetcher{Gateway: testGateway, Bucket: w.bucket, Trust: trusted()}
		r, err := f.Records(t.Context(), "j", 0)
		if err != nil || r.Last != 3 {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		var got []byte
		if err := r.Each(t.Context(), nil, func(b *pipeline.Block, _ pipeline.Stamp) error { got = b.Entries[0].Payload; return nil }); err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%s: %d bytes came again, %v", name, len(got), err)
		}
	}
}

// TestPieceOfNothingButTicks: records without topic and payload close a piece too, at about its size, and what is closed can be read.
func TestPieceOfNothingButTicks(t *testing.T) {
	codec := must(NewCodec())
	var runs []stretch
	size, last := 0, uint64(0)
	for size < ShipBytes {
		last++
		if last > 1<<17 {
			t.Fatalf("%d blocks of ticks do not close a piece", last)
		}
		b := &pipeline.Block{First: pipeline.Position(last), Last: pipeline.Position(last)}
		b.Entries = []pipeline.Entry{{Pos: b.First, Kind: pipeline.EntryTick, Stamp: pipeline.Stamp{Elapsed: int64(last) << 32, Wall: int64(last) << 32}}}
		size += ShippedBytes(b)
		runs = append(runs, runOf(b))
	}
	b, sha, err := codec.packRecords(recordsHead{Gateway: "g", Journal: "j", First: 1, Last: last}, Upload{}, runs, testKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := codec.openRecords(b, sha, trusted())
	if err != nil || o.Size < ShipBytes/2 || o.Size > 2*ShipBytes {
		t.Fatalf("%+v, %v", o, err)
	}
	if got, err := codec.runs(o, nil); err != nil || len(got) != len(runs) {
		t.Errorf("%d of %d, %v", len(got), len(runs), err)
	}
}

// TestRecordsOfNoJournal: what a trusted key has signed is refused all the same when no journal can have it.
func TestRecordsOfNoJournal(t *testing.T) {
	codec := must(NewCodec())
	entry := func(kind, qos uint8) []shippedEntry { return []shippedEntry{{Kind: kind, QoS: qos}} }
	for name, c := range map[string]struct {
		first, last uint64
		runs        []stretch
		want        error
	}{
		"good":                          {1, 1, []stretch{{First: 1, Last: 1, Entries: entry(1, 2)}}, nil},
		"of a newer kind":               {1, 1, []stretch{{First: 1, Last: 1, Entries: entry(uint8(pipeline.EntryAnchor)+1, 0)}}, ErrVersion},
		"of no kind":                    {1, 1, []stretch{{First: 1, Last: 1, Entries: entry(0, 0)}}, ErrDamaged},
		"quality of service 3":          {1, 1, []stretch{{First: 1, Last: 1, Entries: entry(1, 3)}}, ErrDamaged},
		"positions go round":            {1, 5, []stretch{{First: 1, Last: math.MaxUint64}, {First: 0, Last: 5}}, ErrDamaged},
		"positions to which none comes": {1, math.MaxUint64, []stretch{{First: 1, Last: math.MaxUint64}}, ErrDamaged},
		"twice":                         {1, 1, []stretch{{First: 1, Last: 1}, {First: 1, Last: 1}}, ErrDamaged},
		"a hole":                        {1, 3, []stretch{{First: 1, Last: 1}, {First: 3, Last: 3}}, ErrDamaged},
		"too few":                       {1, 2, []stretch{{First: 1, Last: 2, Entries: entry(1, 0)}}, ErrDamaged},
	} {
		b, sha, err := codec.packRecords(recordsHead{Gateway: "g", Journal: "j", First: c.first, Last: c.last}, Upload{}, c.runs, testKey, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := codec.openRecords(b, sha, trusted())
		if err == nil {
			_, err = codec.runs(o, nil)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestObjectThatIsTooLargeForRecords: whoever may write to the store puts one beside the records; what is whole is found all the same.
func TestObjectThatIsTooLargeForRecords(t *testing.T) {
	w := newWorld(t, 1)
	shipping(t, w, 1, 9)
	if err := w.bucket.Put(t.Context(), w.up.names.Records("j", 99, SHA{1}), make([]byte, bytesMaxOf(KindRecords)+1)); err != nil {
		t.Fatal(err)
	}
	if r, err := replayed(w, 0, planted{}); err != nil || r.Last != 9 || len(r.PassedOver) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	w.bucket.Fault = func(buckettest.Request) buckettest.Fault { return buckettest.Lost }
	if r, err := replayed(w, 0, planted{}); err == nil {
		t.Errorf("a store that does not answer: %+v", r)
	}
}

// TestReplayKeepsLittleInMemory: however much was shipped, no more than replayBytes of it are held between walk and replay; the rest is read again and is the same.
func TestReplayKeepsLittleInMemory(t *testing.T) {
	noise := make([]byte, 1<<20)
	for _, plant := range []planted{{}, {keepAll: true}} {
		w := newWorld(t, 1)
		s := w.up.Shipper("j", 1, 0)
		for i := range 10 {
			rand.NewChaCha8([32]byte{byte(i)}).Read(noise)
			b := testBlock(i+1, 1)
			b.Entries[0].Payload = bytes.Clone(noise)
			if err := errors.Join(s.Pack([]*pipeline.Block{b}), s.Send(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		f := &Fetcher{Gateway: testGateway, Bucket: w.bucket, Trust: trusted(), plant: plant}
		r, err := f.Records(t.Context(), "j", 0)
		if err != nil || r.Last != 10 || r.Bytes < 10<<20 {
			t.Fatalf("%+v, %v", r, err)
		}
		kept, next := 0, 0
		for _, o := range r.chain {
			kept += len(o.payload)
		}
		if (kept > replayBytes) != plant.keepAll {
			t.Errorf("%+v: %d bytes are kept", plant, kept)
		}
		err = r.Each(t.Context(), nil, func(b *pipeline.Block, _ pipeline.Stamp) error {
			rand.NewChaCha8([32]byte{byte(next)}).Read(noise)
			if next++; b.First != pipeline.Position(next) || !bytes.Equal(b.Entries[0].Payload, noise) {
				t.Errorf("record %d is another", next)
			}
			return nil
		})
		if err != nil || next != 10 {
			t.Errorf("%d records, %v", next, err)
		}
	}
}

// FuzzRecords: the content of a piece, signed by a trusted key. What is taken has every position once, and is written the same again.
func FuzzRecords(f *testing.F) {
	codec := must(NewCodec())
	for _, blocks := range [][]*pipeline.Block{{testBlock(1, 2), testBlock(3, 0)}, {testBlock(1, 12)}} {
		runs := []stretch{}
		for _, b := range blocks {
			runs = append(runs, runOf(b))
		}
		plain, err := encoding.Marshal(runs)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint64(1), uint64(12), plain)
	}
	f.Add(uint64(1), uint64(5), []byte{0x80})
	f.Fuzz(func(t *testing.T, first, last uint64, plain []byte) {
		h := recordsHead{Gateway: "g", Journal: "j", First: first, Last: last, Size: uint64(len(plain))}
		all, err := codec.runs(&openedRecords{recordsHead: h, payload: codec.enc.EncodeAll(plain, nil)}, nil)
		if err != nil || first == 0 || first > last || last > positionMax { // the head is refused
			return
		}
		next := first
		for i := range all {
			b := all[i].block()
			if uint64(b.First) != next || b.Last < b.First || len(b.Entries) > 0 && uint64(len(b.Entries)) != uint64(b.Last-b.First)+1 {
				t.Fatalf("%d to %d with %d entries, at %d", b.First, b.Last, len(b.Entries), next)
			}
			next = uint64(b.Last) + 1
		}
		if next != last+1 {
			t.Fatalf("ends at %d, told is %d", next-1, last)
		}
		b, sha, err := codec.packRecords(h, Upload{}, all, testKey, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := codec.openRecords(b, sha, trusted())
		if err != nil {
			t.Fatal(err)
		}
		again, err := codec.runs(o, nil)
		if err != nil || len(again) != len(all) {
			t.Fatalf("%v: %+v became %+v", err, all, again)
		}
		for i := range all {
			if !reflect.DeepEqual(again[i].block(), all[i].block()) {
				t.Fatalf("%+v became %+v", all[i], again[i])
			}
		}
	})
}

// FuzzRecordsHead: no object makes it panic.
func FuzzRecordsHead(f *testing.F) {
	codec := must(NewCodec())
	head, err := encoding.Marshal(&recordsHead{Gateway: "g", Journal: "j", First: 1, Last: 2, Before: make([]byte, 32), Size: 9})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(byte(0), append(append(make([]byte, 16), byte(len(head)), 0, 0, 0), head...))
	f.Fuzz(func(t *testing.T, flags byte, body []byte) {
		b := append([]byte(recordsMagic), recordsVersion, flags)
		b = append(append(b, make([]byte, recordsHeader-6)...), body...)
		_, _ = codec.openRecords(b, shaOf(b), nil) // its signature does not hold
		b, sha := signedRecords(testKey, flags, body)
		o, err := codec.openRecords(b, sha, trusted())
		if err == nil && (o.First == 0 || o.Last < o.First || o.Last > positionMax) {
			t.Fatalf("%+v", o)
		}
	})
}
