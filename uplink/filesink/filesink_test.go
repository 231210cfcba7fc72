package filesink

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// far is a directory: the far end of a file sink is the file itself.
type far struct{ config Config }

func newFar(t testing.TB, maxBytes int64) *far {
	return &far{Config{Path: filepath.Join(t.TempDir(), "out.jsonl"), MaxBytes: maxBytes}}
}

func (f *far) Connect(t testing.TB, _ string) uplink.Endpoint {
	s, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *far) Restart(testing.TB) {}

func (f *far) Held(t testing.TB, _ uplink.Stream) (held []uplinktest.Held) {
	s := &Sink{config: f.config}
	names, err := s.closed()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, f.config.Path) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for text := range bytes.Lines(b) {
			row, isRow, err := Row(text)
			if err != nil {
				t.Fatalf("line %s: %v", text, err)
			}
			l, err := parse(bytes.TrimSuffix(text, []byte{'\n'}))
			if err != nil {
				t.Fatalf("line %s: %v", text, err)
			}
			if !isRow {
				continue
			}
			h := uplinktest.Held{Generation: l.generation, Seq: row.Seq, Last: row.Last, Gap: row.Gap, Payload: string(row.Data)}
			if row.Gap {
				h.Payload = row.Reason
			}
			held = append(held, h)
		}
	}
	return held
}

func TestConformance(t *testing.T) {
	for name, maxBytes := range map[string]int64{"one file": 0, "rotated": 4096} {
		t.Run(name, func(t *testing.T) {
			uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return newFar(t, maxBytes) },
				uplinktest.Options{NoBoards: true, OneStream: true})
		})
	}
}

var one = uplink.Incarnation{Major: 1}

// send opens a sink on the file and sends first..last in batches of three.
func (f *far) send(t testing.TB, first, last uint64) {
	t.Helper()
	e := f.Connect(t, "")
	defer e.Close()
	if _, err := e.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
		t.Fatal(err)
	}
	for ; first <= last; first += 3 {
		if _, err := e.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, first, min(first+2, last))); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *far) reopen(t testing.TB) (uplink.Progress, *Sink) {
	t.Helper()
	s := f.Connect(t, "").(*Sink)
	p, err := s.Open(t.Context(), uplinktest.Stream(), one, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

// TestRule13_TornAtEveryByte cuts the file within its last batch at each byte: only torn lines go, and what went comes again.
func TestRule13_TornAtEveryByte(t *testing.T) {
	f := newFar(t, 0)
	f.send(t, 1, 6)
	synced, err := os.ReadFile(f.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	f.send(t, 7, 9)
	whole, err := os.ReadFile(f.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	for n := len(synced); n <= len(whole); n++ {
		if err := os.WriteFile(f.config.Path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		p, s := f.reopen(t)
		want := uint64(6 + bytes.Count(whole[len(synced):n], []byte{'\n'}))
		if p.Seq != want || s.Damaged != 0 {
			t.Fatalf("cut at %d of %d: run ends at %d with %d damaged, want %d", n, len(whole), p.Seq, s.Damaged, want)
		}
		if n%9 != 0 { // each send costs syncs
			_ = s.Close()
			continue
		}
		if _, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 7, 9)); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if got := len(f.Held(t, uplinktest.Stream())); got != 9 {
			t.Fatalf("cut at %d: %d records", n, got)
		}
	}
}

// TestRule13_TornBlocksInTheLastBatch: unsynced blocks reach the disk in any order; a hole in the last batch is torn, not damage.
func TestRule13_TornBlocksInTheLastBatch(t *testing.T) {
	f := newFar(t, 0)
	f.send(t, 1, 6)
	info, err := os.Stat(f.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	f.send(t, 7, 9)
	whole, err := os.ReadFile(f.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	for at := int(info.Size()); at < len(whole); at += 16 {
		torn := bytes.Clone(whole)
		clear(torn[at:min(at+16, len(torn))])
		if err := os.WriteFile(f.config.Path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		p, s := f.reopen(t)
		if p.Seq < 6 || p.Seq > 8 || s.Damaged != 0 {
			t.Fatalf("hole at %d: run ends at %d, %d damaged", at, p.Seq, s.Damaged)
		}
		if _, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, p.Seq+1, 9)); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if got := len(f.Held(t, uplinktest.Stream())); got != 9 {
			t.Fatalf("hole at %d: %d records", at, got)
		}
	}
}

// TestRule13_DamageBelowIsNotCut: a broken line behind which another batch follows had been synced: nothing is cut, it is counted.
func TestRule13_DamageBelowIsNotCut(t *testing.T) {
	f := newFar(t, 0)
	f.send(t, 1, 9)
	whole, err := os.ReadFile(f.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, []byte(`{"seq":2,`)) + 20
	whole[at] ^= 4
	if err := os.WriteFile(f.config.Path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	p, s := f.reopen(t)
	defer s.Close()
	if p.Seq != 9 || s.Damaged != 1 {
		t.Fatalf("run ends at %d with %d damaged, want 9 and 1", p.Seq, s.Damaged)
	}
	after, err := os.ReadFile(f.config.Path)
	if err != nil || !bytes.Equal(after, whole) {
		t.Fatal("the file was changed")
	}
}

func TestFailedSyncClosesTheFile(t *testing.T) {
	f := newFar(t, 0)
	f.send(t, 1, 3)
	_, s := f.reopen(t)
	s.fail = errors.New("input/output error")
	b := uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 4, 6)
	if _, err := s.Send(t.Context(), b); !errors.Is(err, uplink.ErrHole) {
		t.Fatalf("send with a failed sync: %v, want a demand to open again", err)
	}
	if _, err := s.Send(t.Context(), b); !errors.Is(err, uplink.ErrHole) {
		t.Fatalf("send on the closed file: %v", err)
	}
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if got := len(f.Held(t, uplinktest.Stream())); got != 6 {
		t.Fatalf("%d records, want 6", got)
	}
}

func TestForeignFileIsLeftAlone(t *testing.T) {
	f := newFar(t, 0)
	text := []byte("my own notes\n")
	if err := os.WriteFile(f.config.Path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := f.Connect(t, "")
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); !errors.Is(err, ErrForeign) {
		t.Fatalf("open of a foreign file: %v", err)
	}
	f2 := newFar(t, 0)
	f2.send(t, 1, 3)
	other := uplinktest.Stream()
	other.Sink = "other"
	s2 := f2.Connect(t, "")
	if _, err := s2.Open(t.Context(), other, one, 1); !errors.Is(err, ErrForeign) {
		t.Fatalf("open of another sink's file: %v", err)
	}
	if got, _ := os.ReadFile(f.config.Path); !bytes.Equal(got, text) {
		t.Fatal("the foreign file was changed")
	}
}

// TestRotationCrash: the file was moved to its closed name and the new one has not got its name yet.
func TestRotationCrash(t *testing.T) {
	f := newFar(t, 4096)
	f.send(t, 1, 200)
	if err := os.Remove(f.config.Path); err != nil {
		t.Fatal(err)
	}
	s := &Sink{config: f.config}
	names, err := s.closed()
	if err != nil || len(names) < 2 {
		t.Fatalf("closed files: %v %v", names, err)
	}
	p, e := f.reopen(t)
	defer e.Close()
	if p.Seq == 0 || p.Seq > 200 || p.Generation != 1 {
		t.Fatalf("run ends at %+v", p)
	}
	if _, err := e.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, p.Seq+1, 201)); err != nil {
		t.Fatal(err)
	}
	if got := len(f.Held(t, uplinktest.Stream())); got != 201 {
		t.Fatalf("%d records, want 201", got)
	}
}

func FuzzScan(f *testing.F) {
	var seed []byte
	seed = appendOpen(seed, uplinktest.Stream(), one, 1, 0, 0)
	b := uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 3)
	for i := range b.Results {
		seed = appendResult(seed, b, &b.Results[i], i == 2)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)-5])
	f.Add([]byte("{\"open\":\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := scan(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			t.Fatal(err)
		}
		if st.end > int64(len(data)) || st.unsure > st.end || st.end > 0 && !st.found {
			t.Fatalf("state %+v of %d bytes", st, len(data))
		}
		for text := range bytes.Lines(data) {
			_, _ = parse(bytes.TrimSuffix(text, []byte{'\n'}))
			_, _, _ = Row(text)
		}
	})
}

// TestEveryBitFlipIsFound: the checksum covers each byte of a line.
func TestEveryBitFlipIsFound(t *testing.T) {
	b := uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 7, 7)
	good := appendResult(nil, b, &b.Results[0], true)
	good = good[:len(good)-1]
	if _, err := parse(good); err != nil {
		t.Fatal(err)
	}
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := parse(bad); err == nil && !bytes.EqualFold(bad, good) {
			t.Errorf("bit %d of %s", i, bad)
		}
	}
}
