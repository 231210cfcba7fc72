package bus

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"
)

// sample is a call with one of everything that is sent.
func sample(t testing.TB) []byte {
	t.Helper()
	b, err := encodeCall(7, "a.b", "/o", "a.b.C", "M", []any{
		"text", Path("/p"), true, false, byte(3), int32(-4), uint32(5), int64(-6), uint64(7), 8.5, []string{"x", "", "zz"},
		map[string]Variant{"a": {Value: "s"}, "b": {Value: []string{"q"}}, "c": {Value: uint64(1) << 60}}, Variant{Value: map[string]Variant{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(b []byte) (message, error) { return readMessage(bufio.NewReader(bytes.NewReader(b))) }

func TestRoundTrip(t *testing.T) {
	m, err := read(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		"text", "/p", true, false, byte(3), int32(-4), uint32(5), int64(-6), uint64(7), 8.5, []any{"x", "", "zz"},
		map[string]any{"a": "s", "b": []any{"q"}, "c": uint64(1) << 60}, map[string]any{},
	}
	if !reflect.DeepEqual(m.body, want) {
		t.Errorf("got %#v\nwant %#v", m.body, want)
	}
	if m.kind != call || m.fields[fieldPath] != "/o" || m.fields[fieldMember] != "M" || m.fields[fieldInterface] != "a.b.C" || m.fields[fieldDestination] != "a.b" {
		t.Errorf("got %+v", m)
	}
}

// TestAnswerOfAnotherOrder: a big endian peer, and what only peers send.
func TestAnswerOfAnotherOrder(t *testing.T) {
	b := []byte{'B', answer, 1, 1, 0, 0, 0, 27, 0, 0, 0, 9, 0, 0, 0, 18,
		fieldReply, 1, 'u', 0, 0, 0, 1, 2, fieldSignature, 1, 'g', 0, 6, 'n', 'a', 'y', '(', 'q', ')', 0, 0, 0, 0, 0,
		0xff, 0xfe, 0, 0, 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0xff, 0xff}
	binary.BigEndian.PutUint32(b[4:], 18)
	binary.BigEndian.PutUint32(b[12:], 20)
	m, err := read(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := []any{int16(-2), []byte{1, 2, 3}, []any{uint16(0xffff)}}; m.reply != 258 || !reflect.DeepEqual(m.body, want) {
		t.Errorf("reply to %d: %#v, want %#v", m.reply, m.body, want)
	}
}

func TestTruncatedAtEachByte(t *testing.T) {
	b := sample(t)
	for n := range b {
		if _, err := read(b[:n]); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func TestRefused(t *testing.T) {
	large := bytes.Clone(sample(t))
	binary.LittleEndian.PutUint32(large[4:], bytesMax+1)
	version := bytes.Clone(sample(t))
	version[3] = 2
	order := bytes.Clone(sample(t))
	order[0] = 'x'
	for name, b := range map[string][]byte{"large": large, "version": version, "order": order} {
		if _, err := read(b); !errors.Is(err, errForm) && !errors.Is(err, errLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, sig := range []string{"(", "a", "{", "a{", "()", "e", "aa", "v", "a()", "((((((((((((((((((((((((((((((((((((((((y))))))))))))))))))))))))))))))))))))))))", "a{s}"} {
		d := decoder{b: append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 64)...), order: binary.LittleEndian}
		if d.values(sig, 0); d.err == nil && sig != "()" && sig != "v" {
			t.Errorf("signature %q is read", sig)
		}
	}
	d := decoder{b: []byte{1, '(', 0, 0}, order: binary.LittleEndian} // a variant whose signature is half of one
	if d.value("v", 0); d.err == nil {
		t.Error("a variant of half a type is read")
	}
	if _, err := encodeCall(1, "", "", "", "M", []any{struct{}{}}); err == nil {
		t.Error("a value without a signature is sent")
	}
}

// FuzzMessage: whatever comes is read or refused, in bounded memory.
func FuzzMessage(f *testing.F) {
	b := sample(f)
	f.Add(b)
	for i := 0; i < len(b); i += 3 {
		flipped := bytes.Clone(b)
		flipped[i] ^= 1 << (i % 8)
		f.Add(flipped)
	}
	f.Add(append([]byte{'l', signal, 0, 1, 2, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, fieldSignature, 1, 'g', 0, 1, 'v', 0, 0}, 1, '('))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		_, _ = read(b)
	})
}
