package savepoint

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
)

// The library is the judge of each form: what it writes by the tags of the structs is what is written here, and reads the same.
var (
	encoding = must(cbor.CoreDetEncOptions().EncMode())
	decoding = must(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, MaxNestedLevels: depthMax,
		MaxArrayElements: elementsMax, MaxMapPairs: pairsMax, UTF8: cbor.UTF8RejectInvalid, FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // constant options
	}
	return v
}

// libraryEnd and libraryResult are the arrays in the library's terms.
type libraryEnd struct {
	_ struct{} `cbor:",toarray"`
	end
}

type libraryResult struct {
	_       struct{} `cbor:",toarray"`
	Seq     uint64
	Last    uint64
	Chain   uint64
	Pos     uint64
	Kind    uint64
	Time    int64
	Payload []byte
}

func (r libraryResult) own() result {
	return result{Seq: r.Seq, Last: r.Last, Chain: r.Chain, Pos: r.Pos, Kind: r.Kind, Time: r.Time, Payload: r.Payload}
}

// random fills what v points to: numbers of every length, texts and slices that are nil, empty, and of every form of length.
func random(r *rand.Rand, v reflect.Value) {
	length := func() int { return []int{0, 1, 5, 23, 24, 255, 256, 70_000}[r.IntN(8)] }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				random(r, v.Field(i))
			}
		}
	case reflect.String:
		v.SetString(string(bytes.Repeat([]byte("é"), length())))
	case reflect.Uint64:
		v.SetUint(edge(r))
	case reflect.Int64:
		v.SetInt(int64(edge(r)))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Slice:
		if r.IntN(4) == 0 {
			v.SetZero()
			return
		}
		n := length()
		if v.Type().Elem().Kind() != reflect.Uint8 {
			n = r.IntN(3)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				v.Index(i).SetUint(r.Uint64N(256))
			} else {
				random(r, v.Index(i))
			}
		}
	}
}

// edge is a number at a place where the form changes, or next to it.
func edge(r *rand.Rand) uint64 {
	return []uint64{0, 23, 24, 255, 256, 65535, 65536, math.MaxUint32, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64}[r.IntN(12)] + r.Uint64N(3) - 1
}

func TestHeadsAndChunksAreAsTheLibraryWritesThem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var h, ours, theirs Head
		random(r, reflect.ValueOf(&h).Elem())
		b := appendMap(nil, h.fields())
		if lib, err := encoding.Marshal(h); err != nil || !bytes.Equal(b, lib) {
			t.Fatalf("head %+v\n% x\nlibrary % x %v", h, b, lib, err)
		}
		d := reader{b: b}
		d.members(ours.fields())
		if err := d.end(); err != nil {
			t.Fatal(err)
		}
		if err := decoding.Unmarshal(b, &theirs); err != nil || !reflect.DeepEqual(ours, theirs) {
			t.Fatal(err, cmp.Diff(ours, theirs))
		}
		if n, err := walk(b, depthMax); n != len(b) || err != nil {
			t.Fatal(n, len(b), err)
		}
		for cut := range min(len(b), 200) {
			if _, err := walk(b[:cut], depthMax); err != errShort {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}

		var c, again chunk
		random(r, reflect.ValueOf(&c).Elem())
		b = appendMap(nil, c.fields())
		if lib, err := encoding.Marshal(c); err != nil || !bytes.Equal(b, lib) {
			t.Fatalf("chunk % x\nlibrary % x %v", b, lib, err)
		}
		d = reader{b: b}
		d.members(again.fields())
		if err := d.end(); err != nil || !reflect.DeepEqual(c, again) {
			t.Fatal(err)
		}
	}
}

// TestFieldsOutOfOrderAreFound: the judge sees a planted fault.
func TestFieldsOutOfOrderAreFound(t *testing.T) {
	s := Step{UID: "avg", Kind: "window"}
	f := s.fields()
	slices.Reverse(f)
	b := appendMap(nil, f)
	if lib, _ := encoding.Marshal(s); bytes.Equal(b, lib) {
		t.Error("the library writes the same")
	}
	d := reader{b: b}
	d.members((&Step{}).fields())
	if d.end() == nil {
		t.Error("keys that do not rise are read")
	}
}

func TestArraysAreAsTheLibraryWritesThem(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var want libraryResult
		random(r, reflect.ValueOf(&want).Elem())
		own := want.own()
		b := own.append(nil)
		if lib, err := encoding.Marshal(want); err != nil || !bytes.Equal(b, lib) {
			t.Fatalf("result % x\nlibrary % x %v", b, lib, err)
		}
		var got result
		if rest, err := got.read(append(bytes.Clone(b), 1, 2)); err != nil || len(rest) != 2 || !reflect.DeepEqual(got, own) {
			t.Fatal(got, rest, err)
		}

		var last, back end
		random(r, reflect.ValueOf(&last).Elem())
		b = last.append(nil)
		if lib, err := encoding.Marshal(libraryEnd{end: last}); err != nil || !bytes.Equal(b, lib) {
			t.Fatalf("end % x\nlibrary % x %v", b, lib, err)
		}
		if err := back.read(b); err != nil || !reflect.DeepEqual(back, last) {
			t.Fatal(back, err)
		}
		if back.read(append(b, 0)) == nil {
			t.Fatal("more behind the end")
		}
	}
}

func TestOtherFormsAreRefused(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x81}, depthMax), 0)
	for what, b := range map[string][]byte{
		"a long form of 1 byte": {0x18, 23}, "of 2": {0x19, 0, 255}, "of 4": {0x1a, 0, 0, 255, 255}, "of 8": {0x1b, 0, 0, 0, 0, 255, 255, 255, 255},
		"indefinite bytes": {0x5f, 0x41, 1, 0xff}, "indefinite array": {0x9f, 0xff}, "reserved": {0x1c}, "a break": {0xff},
		"text that is none": {0x61, 0xff}, "equal keys": {0xa2, 0x61, 'a', 0, 0x61, 'a', 0}, "falling keys": {0xa2, 0x61, 'b', 0, 0x61, 'a', 0},
		"a simple value in two bytes": {0xf8, 20}, "depth": deep, "elements": {0x9a, 0, 0x10, 0, 1}, "pairs": {0xb8, 65}, "bytes": {0x5a, 0xff, 0, 0, 0},
		"a date that is no text": {0xc0, 0x30}, "seconds that are no number": {0xc1, 0xf4}, "a large integer that is text": {0xc2, 0x61, 'a'}, "a negative one": {0xc3, 0},
	} {
		if n, err := walk(b, depthMax); err != errForm {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	for _, good := range [][]byte{{0xf9, 0, 0}, {0xfb, 0, 0, 0, 0, 0, 0, 0, 0}, {0xf8, 32}, {0xc1, 0}, {0xc1, 0xf9, 0, 0}, {0xc0, 0x61, 'a'}, {0xc2, 0x41, 1}, {0xc3, 0x40}, {0xd9, 0xd9, 0xf7, 0}, deep[1:], {0x20}} {
		if n, err := walk(good, depthMax); n != len(good) || err != nil {
			t.Errorf("% x: %d, %v", good, n, err)
		}
	}
}

// FuzzHead: a head, and any item, that is read here is read by the library, and the same comes of it.
func FuzzHead(f *testing.F) {
	h := Head{Format: Format, Version: 1, UUID: []byte{1}, Steps: []Step{{UID: "a"}}, Tables: []Table{{MaxKeys: -1}}, Sinks: []Sink{{}}, CreatedMs: -5}
	f.Add(appendMap(nil, h.fields()))
	f.Add([]byte{0xa1, 0x64, 'e', 'l', 's', 'e', 0x82, 0xf9, 0, 0, 0xc1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := walk(b, depthMax); err == nil {
			var item cbor.RawMessage
			rest, err := decoding.UnmarshalFirst(b, &item)
			if err != nil || len(b)-len(rest) != n {
				t.Fatalf("% x: %d bytes, the library %d, %v", b, n, len(b)-len(rest), err)
			}
		}
		var ours, theirs Head
		r := reader{b: b}
		if r.members(ours.fields()); r.end() != nil {
			return
		}
		if err := decoding.Unmarshal(b, &theirs); err != nil || !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("% x: %v\n%s", b, err, cmp.Diff(ours, theirs))
		}
	})
}

// FuzzResult: a result has one form.
func FuzzResult(f *testing.F) {
	f.Add((&result{Seq: 1, Last: 1, Time: -1, Payload: []byte("x")}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r result
		rest, err := r.read(b)
		if err == nil && !bytes.Equal(r.append(nil), b[:len(b)-len(rest)]) {
			t.Fatalf("% x: another form", b)
		}
	})
}
