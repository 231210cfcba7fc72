package ops

import (
	"bytes"
	"math"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// The codecs of state entries: what is read is what was written, and nothing else is read.

func FuzzParseLag(f *testing.F) {
	entry, _ := nextLag(nil, nil, pipeline.StringValue("a"), 9)
	for _, v := range []pipeline.Value{{}, pipeline.BoolValue(true), pipeline.IntValue(-1), pipeline.UintValue(1 << 63), pipeline.FloatValue(0.5), pipeline.JSONValue("[1]")} {
		entry, _ = nextLag(nil, entry, v, 9)
	}
	f.Add(entry)
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0x0F})
	for n := range entry {
		if checkLag(entry[:n]) == nil {
			f.Errorf("read from %d of %d bytes", n, len(entry))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkLag(b) != nil {
			return
		}
		var again []byte
		for rest, count := b[len(countOf(b)):], 0; len(rest) > 0; count++ {
			v, n := parseLagged(rest)
			again, _ = nextLag(nil, again, v, LagMax)
			rest = rest[n:]
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x is not written as read: %x", b, again)
		}
	})
}

// countOf is the uvarint that an entry begins with.
func countOf(b []byte) []byte {
	for i := range b {
		if b[i] < 0x80 {
			return b[:i+1]
		}
	}
	return b
}

func FuzzParseNumber(f *testing.F) {
	f.Add([]byte("\x02abcdefgh"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseNumber(b)
		if err != nil {
			return
		}
		again := make([]byte, numberBytes)
		if putNumber(again, v); !bytes.Equal(again, b) {
			t.Fatalf("%x is not written as read: %v", b, v)
		}
	})
}

func FuzzParseCounter(f *testing.F) {
	f.Add([]byte("\x04abcdefghabcdefgh"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, at, err := parseCounter(b)
		if err != nil {
			return
		}
		again := make([]byte, counterBytes)
		if putCounter(again, v, at); !bytes.Equal(again, b) {
			t.Fatalf("%x is not written as read: %v %d", b, v, at)
		}
	})
}

func FuzzParseAbsence(f *testing.F) {
	f.Add([]byte("\x01abcdefghabcdefgh"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseAbsence(b)
		if err != nil {
			return
		}
		again := make([]byte, absenceBytes)
		if putAbsence(again, s); !bytes.Equal(again, b) {
			t.Fatalf("%x is not written as read: %+v", b, s)
		}
	})
}

// FuzzRing: a ring that is accepted gives finite samples, as many as it holds, and takes one more.
func FuzzRing(f *testing.F) {
	ring := make([]byte, ringHead+8*3)
	ringPush(ring, 3, 1.5)
	f.Add(ring)
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkRing(b, 3) != nil {
			return
		}
		b = bytes.Clone(b)
		before := ringSamples(nil, b)
		ringPush(b, 3, 7)
		after := ringSamples(nil, b)
		if err := checkRing(b, 3); err != nil || after[len(after)-1] != 7 || len(after) != min(3, len(before)+1) {
			t.Fatalf("%v becomes %v: %v", before, after, err)
		}
		score, mean, sd := zscore(after, 7)
		if math.IsNaN(score) || math.IsNaN(mean) || math.IsNaN(sd) {
			t.Fatalf("%v: %v %v %v", before, score, mean, sd)
		}
	})
}

// TestSharePartsAreFixed: a change here would send rows of running pipelines elsewhere.
func TestSharePartsAreFixed(t *testing.T) {
	for _, c := range []struct {
		key  pipeline.Value
		part int
	}{{pipeline.StringValue("dev-0"), 6071}, {pipeline.StringValue("dev-1"), 5117}, {pipeline.IntValue(1), 6764}, {pipeline.FloatValue(1), 6764}, {pipeline.Value{}, 9109}} {
		key, err := pipeline.AppendKey(nil, c.key)
		if err != nil {
			t.Fatal(err)
		}
		if got := sharePart(key); got != c.part {
			t.Errorf("%v is in part %d, want %d", c.key, got, c.part)
		}
	}
}
