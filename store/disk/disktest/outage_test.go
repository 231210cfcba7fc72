package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirstream/weir/store/disk"
)

// place is a directory for files and one for the records of what is done to them.
type place struct {
	*testing.T
	files, records string
}

func newPlace(t *testing.T) *place {
	return &place{t, t.TempDir(), t.TempDir()}
}

func (p *place) record() *Recorder {
	p.Helper()
	r, err := Record(disk.OS, p.records, 0)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = r.log.Close() })
	return r
}

func (p *place) outage(random *rand.Rand) Taken {
	p.Helper()
	taken, err := Outage(p.records, random)
	if err != nil {
		p.Fatal(err)
	}
	return taken
}

func (p *place) content() map[string]string {
	p.Helper()
	all := map[string]string{}
	list, err := os.ReadDir(p.files)
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(p.files, e.Name()))
		if err != nil {
			p.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// drive does random things to a file system; the same for the same numbers.
func drive(t *testing.T, fsys disk.FS, dir string, r *rand.Rand, steps int) {
	t.Helper()
	open := map[string]disk.File{}
	for range steps {
		name := filepath.Join(dir, fmt.Sprint("f", r.IntN(4)))
		other := filepath.Join(dir, fmt.Sprint("f", r.IntN(4)))
		op, off, data := r.IntN(8), r.Int64N(3000), bytes.Repeat([]byte{byte(r.UintN(255) + 1)}, 1+r.IntN(2000))
		f := open[name]
		var err error
		switch {
		case f == nil:
			if open[name], err = fsys.Open(name); err != nil {
				open[name], err = fsys.Create(name)
			}
		case op == 0:
			err = fsys.SyncDir(dir)
		case op == 1:
			err = f.Sync()
		case op == 2:
			err = f.Truncate(off)
		case op == 3 && name != other:
			err = fsys.Rename(name, other)
			if o := open[other]; o != nil {
				_ = o.Close()
			}
			open[other] = f
			delete(open, name)
		case op == 4:
			err = errors.Join(f.Close(), fsys.Remove(name))
			delete(open, name)
		default:
			_, err = f.WriteAt(data, off)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestOutageLosesWhatMemLoses: of the same random doings the two file systems hold the same to be durable, with any number of processes
// one after another.
func TestOutageLosesWhatMemLoses(t *testing.T) {
	for seed := range uint64(60) {
		p, m := newPlace(t), NewMem()
		if err := m.MkdirAll("/d"); err != nil {
			t.Fatal(err)
		}
		for life := range uint64(4) {
			drive(t, p.record(), p.files, rand.New(rand.NewPCG(seed, life)), 30)
			drive(t, m, "/d", rand.New(rand.NewPCG(seed, life)), 30)
			if seed%3 == 0 { // else the next process finds what this one left unsynced
				p.outage(nil)
				m.outage()
			}
		}
		p.outage(nil)
		m.outage()
		want := map[string]string{}
		for name, n := range m.durable {
			want[filepath.Base(name)] = string(n.durable)
		}
		if got := p.content(); !maps.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, lengths(got), lengths(want))
		}
		if left, err := os.ReadDir(p.records); err != nil || len(left) > 0 {
			t.Fatal("records are left", err)
		}
	}
}

// outage is the power cut in which nothing comes through.
func (m *Mem) outage() {
	for _, n := range m.durable {
		n.data, n.pending = slices.Clone(n.durable), nil
	}
	m.names, m.changes = maps.Clone(m.durable), nil
}

func lengths(all map[string]string) map[string]int {
	n := map[string]int{}
	for name, s := range all {
		n[name] = len(s)
	}
	return n
}

// TestOutageKeepsWhatWasSynced: whatever random decides.
func TestOutageKeepsWhatWasSynced(t *testing.T) {
	var all Taken
	for seed := range uint64(80) {
		p := newPlace(t)
		r, random := p.record(), rand.New(rand.NewPCG(seed, 9))
		drive(t, r, p.files, random, 40)
		safe, err := r.Create(filepath.Join(p.files, "safe"))
		if err != nil {
			t.Fatal(err)
		}
		data := bytes.Repeat([]byte("safe"), 700)
		if _, err := safe.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(safe.Sync(), r.SyncDir(p.files)); err != nil {
			t.Fatal(err)
		}
		if _, err := safe.WriteAt(data, int64(len(data))); err != nil {
			t.Fatal(err)
		}
		drive(t, r, p.files, random, 20)
		all.Add(p.outage(random))
		got := []byte(p.content()["safe"])
		if len(got) < len(data) || !bytes.Equal(got[:len(data)], data) {
			t.Fatalf("seed %d: a synced file of %d bytes is gone", seed, len(got))
		}
	}
	if all.Writes == 0 || all.Torn == 0 || all.Names == 0 || all.Kept == 0 {
		t.Errorf("not everything happened: %s", all)
	}
}

// TestRecordGoesOnBehindACut: a kill may cut an entry anywhere; the change that it tells of was not made.
func TestRecordGoesOnBehindACut(t *testing.T) {
	for cut := range 40 {
		p := newPlace(t)
		r := p.record()
		f, err := r.Create(filepath.Join(p.files, "f"))
		if err == nil {
			_, err = f.WriteAt([]byte("durable"), 0)
		}
		if err = errors.Join(err, f.Sync(), r.SyncDir(p.files)); err != nil {
			t.Fatal(err)
		}
		e := entry{kind: kindWrite, node: f.(*recordedFile).ino, size: 7, old: []byte("dur"), data: []byte("XXX")}
		whole := e.encode()
		if _, err := r.log.Write(whole[:min(cut, len(whole)-1)]); err != nil {
			t.Fatal(err)
		}
		g, err := p.record().Open(filepath.Join(p.files, "f"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.WriteAt([]byte("lost"), 0); err != nil {
			t.Fatal(err)
		}
		if n, err := Unsynced(p.records, p.files); n != 4 || err != nil {
			t.Fatalf("%d bytes unsynced: %v", n, err)
		}
		p.outage(nil)
		if got := p.content()["f"]; got != "durable" {
			t.Fatalf("cut at %d: %q", cut, got)
		}
	}
}

// stopping is a process that is killed before its n-th change.
type stopping struct {
	disk.FS
	left *int
}

type stoppingFile struct {
	disk.File
	left *int
}

func gone(left *int) error {
	if *left--; *left < 0 {
		return ErrKilled
	}
	return nil
}

func (s stopping) Create(name string) (disk.File, error) {
	if err := gone(s.left); err != nil {
		return nil, err
	}
	f, err := s.FS.Create(name)
	return stoppingFile{f, s.left}, err
}
func (s stopping) Rename(a, b string) error {
	if err := gone(s.left); err != nil {
		return err
	}
	return s.FS.Rename(a, b)
}
func (s stopping) SyncDir(d string) error {
	if err := gone(s.left); err != nil {
		return err
	}
	return s.FS.SyncDir(d)
}
func (f stoppingFile) WriteAt(p []byte, off int64) (int, error) {
	if err := gone(f.left); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}
func (f stoppingFile) Sync() error {
	if err := gone(f.left); err != nil {
		return err
	}
	return f.File.Sync()
}

// neverSynced is the planted mistake: files are not synced before they get their name.
type neverSynced struct{ disk.FS }

func (n neverSynced) Create(name string) (disk.File, error) {
	f, err := n.FS.Create(name)
	return withoutSync{f}, err
}

type withoutSync struct{ disk.File }

func (withoutSync) Sync() error { return nil }

// TestOutageFindsAMissingSync: an atomic replacement survives an outage after each of its steps, and one without its sync does not.
func TestOutageFindsAMissingSync(t *testing.T) {
	run := func(wrap func(disk.FS) disk.FS) (bad int) {
		olds, news := bytes.Repeat([]byte("old "), 600), bytes.Repeat([]byte("new!"), 900)
		for seed := range uint64(100) {
			p := newPlace(t)
			name := filepath.Join(p.files, "f")
			if err := disk.WriteFileAtomic(p.record(), name, olds); err != nil {
				t.Fatal(err)
			}
			left := int(seed % 7)
			err := disk.WriteFileAtomic(stopping{wrap(p.record()), &left}, name, news)
			p.outage(rand.New(rand.NewPCG(seed, 3)))
			got := []byte(p.content()["f"])
			if !bytes.Equal(got, news) && (err == nil || !bytes.Equal(got, olds)) {
				bad++
			}
		}
		return bad
	}
	if bad := run(func(f disk.FS) disk.FS { return f }); bad > 0 {
		t.Errorf("%d of 100 outages harm an atomic replacement", bad)
	}
	if bad := run(func(f disk.FS) disk.FS { return neverSynced{f} }); bad == 0 {
		t.Error("a missing sync is not found")
	} else {
		t.Logf("without the sync %d of 100 outages do harm", bad)
	}
}
