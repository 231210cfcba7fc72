package log

import (
	"bytes"
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/klauspost/compress/zstd"
)

// TestCodecIsLetGo: what packs and unpacks holds no memory when it was not used between collections, and comes back at the next use.
func TestCodecIsLetGo(t *testing.T) {
	c := NewCodec()
	raw := bytes.Repeat([]byte("temperature 21.5 "), 400)
	packed := c.Pack(nil, raw)
	enc, dec := c.packers.take(), c.unpackers.take()
	packer, unpacker := weak.Make(enc), weak.Make(dec)
	c.packers.giveBack(enc)
	c.unpackers.giveBack(dec)
	enc, dec = nil, nil
	for range 3 { // two collections age what is spare, and one more takes it
		runtime.GC()
	}
	if packer.Value() != nil || unpacker.Value() != nil {
		t.Error("an idle codec keeps its memory")
	}
	if again := c.Pack(nil, raw); !bytes.Equal(again, packed) {
		t.Error("a packer that is new packs otherwise")
	}
	if got, err := c.Unpack(nil, packed); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("unpacked %d bytes of %d: %v", len(got), len(raw), err)
	}
}

// TestCodecLendsFew: however many pack at once, no more than two work, so that 200 pipelines take no more memory than two.
func TestCodecLendsFew(t *testing.T) {
	var mu sync.Mutex
	lent, most := 0, 0
	l := newLender(2, newPacker)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var enc *zstd.Encoder = l.take()
			mu.Lock()
			lent++
			most = max(most, lent)
			mu.Unlock()
			runtime.Gosched()
			mu.Lock()
			lent--
			mu.Unlock()
			l.giveBack(enc)
		})
	}
	wg.Wait()
	if most > 2 {
		t.Errorf("%d were lent at once", most)
	}
}
