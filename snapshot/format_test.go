package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

func testManifest() *Manifest {
	return &Manifest{
		Pipeline: testPipeline, ID: 9, Parent: 8, Oldest: 7, Position: 1 << 40, PlanHash: [32]byte{5}, Generation: 2,
		Incarnation: Incarnation{3, 4}, WallMs: -5, Trusted: true, Idle: true, Tasks: testTasks,
		Behaviours: []Behaviour{{"s1", 1}, {"s2", 1 << 40}},
		Tables: []TableMeta{
			{"s1", state.Spec{Name: "acc", Kind: state.Map, Type: "window.acc", Version: 65535, TTL: -1, MaxKeys: 7}, 3},
			{"", state.Spec{}, 0},
		},
		Sinks:  []pipeline.SinkMark{{UID: "out", Generation: 1, Seq: 2, Chain: 1<<64 - 1}},
		Outbox: []OutboxRange{{"out", 1, 2, 3, 4}},
		Ledger: []byte("ledger"),
		Base:   BaseRef{4, 2, 100, 200, 300, [32]byte{1, 2}},
		Frames: []FrameRef{{5, 0, 10, 2, 30, 400, 0xdeadbeef}, {5, 1, 12, 1, 1, 5, 1}, {9, 0, 3, 1, 1, 5, 2}},
	}
}

func TestManifestRoundTrip(t *testing.T) {
	for _, m := range []*Manifest{testManifest(), {}} {
		b := AppendManifest([]byte("prefix"), m)[6:]
		got, err := DecodeManifest(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
}

// damageAll cuts an encoding at each byte and flips each bit; decode must refuse all with a known error.
func damageAll(t *testing.T, b []byte, decode func([]byte) error) {
	t.Helper()
	known := func(err error) bool {
		for _, k := range []error{ErrMagic, ErrVersion, ErrFlags, ErrChecksum, ErrCorrupt} {
			if errors.Is(err, k) {
				return true
			}
		}
		return false
	}
	for n := range b {
		if err := decode(b[:n:n]); !known(err) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		for bit := range 8 {
			d := bytes.Clone(b)
			d[n] ^= 1 << bit
			if err := decode(d); !known(err) || errors.Is(err, ErrVersion) {
				t.Fatalf("bit %d of byte %d: %v", bit, n, err)
			}
		}
	}
	if err := decode(append(bytes.Clone(b), 0)); !known(err) {
		t.Fatalf("trailing byte: %v", err)
	}
}

func TestManifestDamage(t *testing.T) {
	damageAll(t, AppendManifest(nil, testManifest()), func(b []byte) error { _, err := DecodeManifest(b); return err })
}

// TestNewerVersionIsNotDamage: whole, but of a version that this agent does not know.
func TestNewerVersionIsNotDamage(t *testing.T) {
	b := AppendManifest(nil, testManifest())
	b[4] = 2
	b = appendCRC(b[:len(b)-4], 0)
	if _, err := DecodeManifest(b); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v", err)
	}
	b[4], b[6] = 1, 1
	b = appendCRC(b[:len(b)-4], 0)
	if _, err := DecodeManifest(b); !errors.Is(err, ErrFlags) {
		t.Errorf("got %v", err)
	}
	s := openTestBolt(t, t.TempDir())
	threeCheckpoints(t, s)
	if err := s.db.Update(func(tx *boltTx) error { return tx.Bucket(bucketCheckpoint).Put(be(4), b) }); err != nil {
		t.Fatal(err)
	}
	_, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline})
	if !errors.Is(err, ErrVersion) {
		t.Fatalf("got %v", err)
	}
	if list, _ := s.List(t.Context()); len(list.SetAside) > 0 {
		t.Error("a newer agent's checkpoint was set aside")
	}
}

func testBody() *body {
	w := &body{}
	for i := range 20 {
		e := entry{uid: []byte("s1"), table: fmt.Appendf(nil, "t%d", i/10), key: fmt.Appendf(nil, "k%02d", i), sub: []byte("s"), val: bytes.Repeat([]byte("v"), i), deleted: i%5 == 4}
		if e.deleted {
			e.val = nil
		}
		w.add(&e)
	}
	return w
}

func readBody(b []byte) (n int, err error) {
	r := newBodyReader(b)
	for {
		ok, err := r.next()
		if err != nil || !ok {
			return n, err
		}
		n++
	}
}

func TestChunkDamage(t *testing.T) {
	w := testBody()
	id := chunkID{7, 1, 2}
	b := appendChunk(nil, id, w.buf)
	got, body, err := decodeChunk(b)
	if err != nil || got != id {
		t.Fatalf("%+v, %v", got, err)
	}
	if n, err := readBody(body); n != 20 || err != nil {
		t.Fatalf("%d entries, %v", n, err)
	}
	damageAll(t, b, func(b []byte) error { _, _, err := decodeChunk(b); return err })
}

// testBase is a base of some blocks.
func testBase(t testing.TB) []byte {
	t.Helper()
	p := newPacker(nil)
	var out bytes.Buffer
	w, err := newBaseWriter(&out, p, testPipeline, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	r := newRand(1)
	for i := range 1200 {
		val := make([]byte, 60)
		for j := range val {
			val[j] = byte(r.IntN(256))
		}
		e := entry{uid: []byte("s1"), table: fmt.Appendf(nil, "t%d", i/600), key: fmt.Appendf(nil, "key-%06d", i), val: val}
		if err := w.add(&e); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.finish(testManifest().Tables); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readBase opens a base, verifies it, and reads every entry.
func readBase(b []byte) (n int, err error) {
	p := newPacker(nil)
	f, err := openBase(bytes.NewReader(b), int64(len(b)), p)
	if err != nil {
		return 0, err
	}
	if err := f.verify(context.Background(), int64(len(b))); err != nil {
		return 0, err
	}
	return readBlocks(f)
}

func readBlocks(f *baseFile) (n int, err error) {
	run := &baseRun{baseFile: f}
	for i := range run.chunks() {
		body, err := run.body(context.Background(), i)
		if err != nil {
			return n, err
		}
		m, err := readBody(body)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

func TestBaseDamage(t *testing.T) {
	b := testBase(t)
	if n, err := readBase(b); n != 1200 || err != nil {
		t.Fatalf("%d entries, %v", n, err)
	}
	p := newPacker(nil)
	// Every byte is under the sha256; the blocks, read without it, have a checksum of their own. Around the ends every bit is
	// tried, between them a sample.
	for n := 0; n < len(b); n++ {
		if n > 400 && n < len(b)-400 && n%97 != 0 {
			continue
		}
		d := bytes.Clone(b)
		d[n] ^= 1 << (n % 8)
		if _, err := readBase(d); err == nil {
			t.Fatalf("flipped bit in byte %d was not found", n)
		}
		if _, err := readBase(b[:n]); err == nil {
			t.Fatalf("cut at %d was not found", n)
		}
		f, err := openBase(bytes.NewReader(d), int64(len(d)), p)
		if err != nil {
			continue
		}
		// the trailer's count and hash are compared with the manifest by the store
		if got, err := readBlocks(f); err == nil && (got != 1200 || n >= baseHeader && uint64(n) < f.footer) {
			t.Fatalf("flipped bit in byte %d was read as data", n)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(AppendManifest(nil, testManifest()))
	f.Add(AppendManifest(nil, &Manifest{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(b []byte) {
			m, err := DecodeManifest(b)
			if err != nil {
				return
			}
			if again := AppendManifest(nil, m); !bytes.Equal(again, b) {
				t.Fatalf("%x decodes and encodes as %x", b, again)
			}
		}
		check(b)
		if len(b) >= manifestHeader+4 { // with a checksum that holds
			b = bytes.Clone(b)
			copy(b, manifestMagic)
			binary.LittleEndian.PutUint32(b[4:], manifestVersion)
			binary.LittleEndian.PutUint32(b[8:], uint32(len(b)-manifestHeader-4))
			check(appendCRC(b[:len(b)-4], 0))
		}
	})
}

func FuzzBody(f *testing.F) {
	f.Add(testBody().buf)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newBodyReader(b)
		var w body
		for {
			ok, err := r.next()
			if err != nil {
				return
			}
			if !ok {
				break
			}
			w.add(&r.cur)
		}
		if n, err := readBody(w.buf); err != nil || uint64(n) != w.entries {
			t.Fatalf("written again: %d entries, %v", n, err)
		}
	})
}

func FuzzBase(f *testing.F) {
	f.Add(testBase(f))
	p := newPacker(nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		base, err := openBase(bytes.NewReader(b), int64(len(b)), p)
		if err == nil {
			_, _ = readBlocks(base)
		}
	})
}

func FuzzBaseFooter(f *testing.F) {
	f.Add([]byte{0, 1, 60, 1, 'a', 1, 'b'})
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = (&baseFile{footer: 1000}).decodeFooter(b)
	})
}

func FuzzUnpack(f *testing.F) {
	p := newPacker(nil)
	f.Add(p.pack(nil, testBody().buf))
	f.Add(p.pack(nil, []byte("abc")))
	f.Fuzz(func(t *testing.T, b []byte) {
		raw, err := p.unpack(nil, b)
		if err != nil {
			return
		}
		if back, err := p.unpack(nil, p.pack(nil, raw)); err != nil || !bytes.Equal(back, raw) {
			t.Fatal("round trip")
		}
	})
}

var rewriteGolden = flag.Bool("rewrite", false, "write golden files")

// TestGoldenFormat: bytes of version 1 stay as they are. A change needs a new version.
func TestGoldenFormat(t *testing.T) {
	for name, b := range map[string][]byte{
		"manifest-v1.bin": AppendManifest(nil, testManifest()),
		"chunk-v1.bin":    appendChunk(nil, chunkID{7, 1, 2}, testBody().buf),
	} {
		path := filepath.Join("testdata", name)
		if *rewriteGolden {
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want) {
			t.Errorf("%s differs", name)
		}
	}
}
