package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/weirstream/weir/pipeline"
)

func sealAgain(frame []byte) { binary.LittleEndian.PutUint32(frame[68:], checksum(frame)) }

func frameOf(recs [][]byte, compress bool) []byte {
	var raw []byte
	for _, r := range recs {
		raw = appendRecord(raw, len(r), [][]byte{r})
	}
	h := header{epoch: 7, first: 11, last: 10 + uint64(len(recs)), syncedThrough: 9, rawBytes: uint32(len(raw)),
		stamp: pipeline.Stamp{Elapsed: 1, Wall: -2, Trusted: true}}
	body := raw
	if compress {
		enc, _ := zstd.NewWriter(nil)
		body, h.flags = enc.EncodeAll(raw, nil), flagZstd
	}
	h.bodyBytes = uint32(len(body))
	frame := append(make([]byte, headerBytes), body...)
	h.seal(frame)
	return frame
}

func TestFrameRoundTripCutAndFlipped(t *testing.T) {
	dec := NewCodec()
	recs := [][]byte{[]byte("first"), {}, bytes.Repeat([]byte("abc"), 40)}
	for _, compress := range []bool{false, true} {
		frame := frameOf(recs, compress)
		h, body, err := parse(append(bytes.Clone(frame), "behind it"...))
		if err != nil || h.epoch != 7 || h.first != 11 || h.last != 13 || h.syncedThrough != 9 || !h.stamp.Trusted || h.stamp.Wall != -2 {
			t.Fatal(err, h)
		}
		raw, err := unpack(dec, &h, body)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for pos, rec := range (&Block{First: h.first, Last: h.last, raw: raw}).Records() {
			if pos != 11+uint64(i) || !bytes.Equal(rec, recs[i]) {
				t.Fatal(pos, rec)
			}
			i++
		}
		for n := range frame {
			if _, _, err := parse(frame[:n]); !errors.Is(err, ErrMagic) && !errors.Is(err, ErrChecksum) {
				t.Fatalf("cut at %d: %v", n, err)
			}
			for bit := range 8 {
				bad := bytes.Clone(frame)
				bad[n] ^= 1 << bit
				_, _, err := parse(bad)
				if n < 4 && !errors.Is(err, ErrMagic) || n >= 4 && !errors.Is(err, ErrChecksum) {
					t.Fatalf("bit %d of byte %d flipped: %v", bit, n, err)
				}
			}
		}
	}
}

func TestBlockFrom(t *testing.T) {
	frame := frameOf([][]byte{[]byte("a"), []byte("b"), []byte("c")}, false)
	b := &Block{First: 11, Last: 13, raw: frame[headerBytes:]}
	for from := uint64(11); from <= 13; from++ {
		want := from
		for pos, rec := range b.from(from).from(from).Records() {
			if pos != want || string(rec) != string("abc"[pos-11]) {
				t.Fatal(from, pos, rec)
			}
			want++
		}
		if want != 14 {
			t.Fatal(from, want)
		}
	}
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		end  int64
		n    int
		want int64
	}{
		{72, 100, 72}, {73, 100, 80}, {4000, 96, 4000}, {4000, 97, 4096}, {4000, 4096, 4096}, {4000, 8192, 4096},
		{4000, 5000, 4096}, {100, 8000, 104}, {8192, 1, 8192},
	} {
		if got := place(c.end, c.n); got != c.want {
			t.Errorf("place(%d, %d) is %d, want %d", c.end, c.n, got, c.want)
		}
	}
}

func TestSegmentName(t *testing.T) {
	for _, n := range []uint64{1, 99999999, 100000000, 1 << 60} {
		if got, ok := parseSegmentName(segmentName(n)); !ok || got != n {
			t.Error(n, got, ok)
		}
	}
	for _, bad := range []string{"", "1.seg", "00000001", "0000000a.seg", "+0000001.seg", "000000001.seg", "00000001.seg.tmp"} {
		if _, ok := parseSegmentName(bad); ok {
			t.Error(bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(frameOf([][]byte{[]byte("a"), []byte("bb")}, false), true)
	f.Add(frameOf([][]byte{bytes.Repeat([]byte("a"), 500)}, true), true)
	f.Add(frameOf(nil, false), false)
	dec := NewCodec()
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if n, err := frameSize(b); seal && err == nil && n <= len(b) {
			sealAgain(b[:n]) // get past the checksum
		}
		h, body, err := parse(b)
		if err != nil {
			return
		}
		if h.count() > 1<<40 || len(body) != int(h.bodyBytes) {
			if h.last < h.first {
				t.Fatal("count below zero")
			}
		}
		raw, err := unpack(dec, &h, body)
		if err != nil {
			return
		}
		n := uint64(0)
		for pos := range (&Block{First: h.first, Last: h.last, raw: raw}).Records() {
			if pos != h.first+n {
				t.Fatal(pos)
			}
			n++
		}
		if n != h.count() {
			t.Fatalf("%d records, header says %d", n, h.count())
		}
	})
}

func FuzzSegmentName(f *testing.F) {
	f.Add("00000001.seg")
	f.Fuzz(func(t *testing.T, s string) {
		if n, ok := parseSegmentName(s); ok && segmentName(n) != s {
			t.Fatal(s)
		}
	})
}
