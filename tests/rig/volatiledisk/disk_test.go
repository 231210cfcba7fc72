package volatiledisk

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestDiskIsItsModel: random requests and cuts. Every mode must have shown what it is there for.
func TestDiskIsItsModel(t *testing.T) {
	all := map[Mode]*seen{}
	for seed := range uint64(60) {
		found, err := play(none, seed, 300)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for mode, s := range found {
			if all[mode] == nil {
				all[mode] = &seen{}
			}
			a := all[mode]
			a.lost, a.kept, a.torn = a.lost || s.lost, a.kept || s.kept, a.torn || s.torn
			a.reordered, a.tornPrefix = a.reordered || s.reordered, a.tornPrefix || s.tornPrefix
		}
	}
	want := map[Mode]seen{
		Drop: {lost: true},
		Keep: {kept: true},
		Mix:  {lost: true, kept: true, torn: true, reordered: true},
		Tear: {lost: true, kept: true, torn: true, tornPrefix: true},
	}
	for mode, w := range want {
		if got := all[mode]; got == nil || *got != w {
			t.Errorf("%v has shown %+v, want %+v", mode, got, w)
		}
	}
}

// TestModelFindsPlantedFaults: a disk that loses what was flushed, or nothing at all, is found out.
func TestModelFindsPlantedFaults(t *testing.T) {
	for planted, name := range map[fault]string{
		flushForgets: "flush forgets the newest request", durableIsOverwritten: "an older request comes back over a durable one",
		imageLosesFlushed: "an image lacks what was flushed", keepsAll: "nothing is ever lost", tornSector: "half a sector survives",
	} {
		found := false
		for seed := uint64(0); seed < 20 && !found; seed++ {
			_, err := play(planted, seed, 300)
			found = err != nil
		}
		if !found {
			t.Errorf("not found: %s", name)
		}
	}
	for seed := range uint64(20) {
		found, err := play(neverTears, seed, 300)
		if err != nil {
			t.Fatal(err)
		}
		for mode, s := range found {
			if s.torn {
				t.Errorf("%v tears, which the planted fault prevents: TestDiskIsItsModel would not find it", mode)
			}
		}
	}
}

func TestCutDiskAnswersNothing(t *testing.T) {
	d := New(8 * SectorBytes)
	if _, err := d.WriteAt(content(7, 2), 0); err != nil {
		t.Fatal(err)
	}
	img := d.Cut(Cut{Mode: Drop})
	_, read := d.ReadAt(make([]byte, 10), 0)
	_, write := d.WriteAt(content(8, 1), 0)
	_, durable := d.WriteDurable(content(8, 1), 0)
	for what, err := range map[string]error{"read": read, "write": write, "durable write": durable, "zero": d.Zero(0, SectorBytes), "trim": d.Trim(0, SectorBytes), "flush": d.Flush()} {
		if !errors.Is(err, ErrCut) {
			t.Errorf("%s after the cut: %v, want %v", what, err, ErrCut)
		}
	}
	for what, m := range map[string]*Image{"the cut": img, "a second cut": d.Cut(Cut{Mode: Keep}), "an image after it": d.Image(Cut{Mode: Keep})} {
		got := make([]byte, 2*SectorBytes)
		if _, err := m.ReadAt(got, 0); err != nil || !bytes.Equal(got, content(0, 2)) {
			t.Errorf("%s has what was not flushed (%v)", what, err)
		}
	}
}

func TestRequestsOutsideOrUnaligned(t *testing.T) {
	d := New(8 * SectorBytes)
	one := make([]byte, SectorBytes)
	for _, off := range []int64{-SectorBytes, 8 * SectorBytes, 9 * SectorBytes, 1<<63 - SectorBytes} {
		if _, err := d.WriteAt(one, off); !errors.Is(err, ErrRange) {
			t.Errorf("write at %d: %v", off, err)
		}
		if err := d.Zero(off, SectorBytes); !errors.Is(err, ErrRange) {
			t.Errorf("zero at %d: %v", off, err)
		}
		if _, err := d.ReadAt(one, off); !errors.Is(err, ErrRange) {
			t.Errorf("read at %d: %v", off, err)
		}
	}
	if _, err := d.WriteAt(one, 1); !errors.Is(err, ErrUnaligned) {
		t.Errorf("write at 1: %v", err)
	}
	if _, err := d.WriteAt(one[:100], 0); !errors.Is(err, ErrUnaligned) {
		t.Errorf("write of 100 bytes: %v", err)
	}
	if c := d.Counters(); c != (Counters{}) {
		t.Errorf("refused requests are counted: %+v", c)
	}
}

func TestCounters(t *testing.T) {
	d := New(64 * SectorBytes)
	write := func(f func([]byte, int64) (int, error), n, at int64) {
		if _, err := f(content(1, n), at*SectorBytes); err != nil {
			t.Fatal(err)
		}
	}
	write(d.WriteAt, 3, 0)
	write(d.WriteDurable, 1, 1) // splits the one before
	if err := d.Zero(10*SectorBytes, 2*SectorBytes); err != nil {
		t.Fatal(err)
	}
	d.ReadAt(make([]byte, 1), 5)
	want := Counters{Reads: 1, Writes: 2, Zeros: 1, Durable: 1, Bytes: 4 * SectorBytes, Unflushed: 3, UnflushedBytes: 4 * SectorBytes}
	if c := d.Counters(); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	want.Flushes, want.Unflushed, want.UnflushedBytes = 1, 0, 0
	if c := d.Counters(); c != want {
		t.Errorf("after a flush: got %+v, want %+v", c, want)
	}
}

// TestSparse: a disk of 16 GiB takes the memory of what is on it, also when all of it is zeroed.
func TestSparse(t *testing.T) {
	const size = 1 << 34
	d := New(size)
	if _, err := d.WriteAt(content(9, 8), size-8*SectorBytes); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := len(d.durable); n != 1 {
		t.Errorf("%d pages are kept, want 1", n)
	}
	if err := d.Trim(size/2, size/2); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := len(d.durable); n != 0 {
		t.Errorf("%d pages are kept of a disk that was trimmed, want 0", n)
	}
}

// TestImageOutlivesTheDisk: what the disk does later is not seen in an image, nor what a disk made of the image does.
func TestImageOutlivesTheDisk(t *testing.T) {
	d := New(40 * SectorBytes)
	all := content(3, 40)
	if _, err := d.WriteAt(all, 0); err != nil {
		t.Fatal(err)
	}
	d.Flush()
	img := d.Image(Cut{Mode: Drop})
	other := FromImage(img)
	for _, disk := range []*Disk{d, other} {
		disk.WriteAt(content(4, 5), 3*SectorBytes)
		disk.WriteDurable(content(5, 1), 20*SectorBytes)
		disk.Flush()
	}
	got := make([]byte, len(all)+100)
	if n, err := img.ReadAt(got, 0); n != len(all) || err != io.EOF || !bytes.Equal(got[:n], all) {
		t.Errorf("the image has changed, or ends elsewhere: %d %v", n, err)
	}
	if n, err := img.ReadAt(got, img.Size()+1); n != 0 || err != io.EOF {
		t.Errorf("behind the end: %d %v", n, err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := errors.Join(file.Truncate(img.Size()), img.CopyTo(file)); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file, 48*SectorBytes)
	if err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Clone(all), make([]byte, 8*SectorBytes)...)
	back := make([]byte, len(want))
	if _, err := loaded.Image(Cut{}).ReadAt(back, 0); err != nil || !bytes.Equal(back, want) {
		t.Errorf("copied and loaded it is another disk (%v)", err)
	}
}

// TestSameCutSameBytes: a cut that was printed can be made again.
func TestSameCutSameBytes(t *testing.T) {
	d := New(64 * SectorBytes)
	for i := range int64(20) {
		if _, err := d.WriteAt(content(uint64(i+1), 3), i*3*SectorBytes); err != nil {
			t.Fatal(err)
		}
	}
	differ := 0
	for seed := range uint64(20) {
		for _, mode := range Modes {
			var images [3][]byte
			for i, s := range []uint64{seed, seed, seed + 1} {
				images[i] = make([]byte, d.Size())
				d.Image(Cut{mode, s}).ReadAt(images[i], 0)
			}
			if !bytes.Equal(images[0], images[1]) {
				t.Fatalf("%v: two images of one cut differ", Cut{mode, seed})
			}
			if !bytes.Equal(images[0], images[2]) {
				differ++
			}
		}
	}
	if differ < 20 {
		t.Errorf("the seed changes %d images of 40", differ)
	}
}

// TestManyAtOnce: writers with sectors of their own, each flushed before it is noted; every image has what was noted before it.
func TestManyAtOnce(t *testing.T) {
	const writers, rounds = 4, 200
	d := New(writers * SectorBytes)
	var mu sync.Mutex
	var noted [writers]uint64
	var wg sync.WaitGroup
	for w := range int64(writers) {
		wg.Go(func() {
			for v := uint64(1); v <= rounds; v++ {
				d.WriteAt(content(v, 1), w*SectorBytes)
				d.Flush()
				mu.Lock()
				noted[w] = v
				mu.Unlock()
			}
		})
	}
	m := newModel(writers)
	for seed := range uint64(200) {
		mu.Lock()
		before := noted
		mu.Unlock()
		got, err := m.read(d.Image(Cut{Modes[seed%4], seed}))
		if err != nil {
			t.Error(err)
			break
		}
		for w, v := range before {
			if got[w] < v {
				t.Errorf("writer %d flushed %d, the image has %d", w, v, got[w])
			}
		}
	}
	wg.Wait()
}
