package savepoint_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/log"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

var codec = log.NewCodec()

type entry struct{ key, sub, val string }

// content is a savepoint's content in memory.
type content struct {
	head    savepoint.Head
	tables  [][]entry // of Head.Tables
	results map[string][]pipeline.Result
}

func (c *content) Sinks() []pipeline.SinkMark  { return nil }
func (c *content) Position() pipeline.Position { return pipeline.Position(c.head.Position) }

func (c *content) Entries(uid, name string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	for i := range c.head.Tables {
		if t := &c.head.Tables[i]; t.UID == uid && t.Name == name {
			for _, e := range c.tables[i] {
				if err := f([]byte(e.key), []byte(e.sub), []byte(e.val)); err != nil {
					return t.Spec(), true, err
				}
			}
			return t.Spec(), true, nil
		}
	}
	return state.Spec{}, false, nil
}

func (c *content) content() savepoint.Content {
	return savepoint.Content{Head: c.head, State: c, Results: func(s *savepoint.Sink, each func(*pipeline.Result) error) error {
		for _, r := range c.results[s.UID] {
			if err := each(&r); err != nil {
				return err
			}
		}
		return nil
	}}
}

// example has all that a savepoint can have; n scales it.
func example(n int) *content {
	c := &content{
		head: savepoint.Head{
			Writer: "test", Gateway: "gw-1", Pipeline: "cold-chain", UUID: bytes.Repeat([]byte{7}, 16), Journal: "j", Checkpoint: 9, Position: 1 << 40,
			Generation: 2, Major: 1, Minor: 3, ElapsedNs: 1e15, CreatedMs: 1_700_000_000_000, Trusted: true, PlanHash: bytes.Repeat([]byte{1}, 32), Plan: []byte("steps: []\n"),
			Steps: []savepoint.Step{{UID: "avg", Kind: "window", Params: "tumbling 1m", Behaviour: 1, Stateful: true}},
			Tables: []savepoint.Table{
				savepoint.TableOf("avg", state.Spec{Name: "acc", Kind: state.Map, Type: "window.acc", Version: 2, TTL: 5, MaxKeys: 100}),
				savepoint.TableOf("avg", state.Spec{Name: "empty", Kind: state.Value, Type: "x", Version: 1}),
				savepoint.TableOf("last", state.Spec{Name: "rows", Kind: state.List, Type: "y", Version: 1}),
			},
			Sinks: []savepoint.Sink{
				{UID: "cloud", Generation: 2, Seq: uint64(n + 10), Chain: 77, Confirmed: 4, ChainConfirmed: 44},
				{UID: "done", Generation: 2, Seq: 5, Chain: 1 << 63, Confirmed: 5, ChainConfirmed: 1 << 63},
				{UID: "local", Generation: 2, Seq: 2, Chain: 3},
			},
			Ledger: []byte{1, 2, 3},
		},
		tables: make([][]entry, 3),
	}
	for i := range n {
		c.tables[0] = append(c.tables[0], entry{fmt.Sprintf("device-%06d", i), "pane", fmt.Sprint("value ", i*i)})
		c.tables[2] = append(c.tables[2], entry{fmt.Sprintf("%06d", i), string([]byte{0, byte(i)}), string(make([]byte, i%300))})
	}
	c.results = map[string][]pipeline.Result{"local": {{Seq: 1, Last: 2, Chain: 3, Kind: pipeline.ResultGap, Time: pipeline.NoTime, Payload: []byte("expired")}}}
	for s := uint64(5); s <= uint64(n+10); s++ {
		c.results["cloud"] = append(c.results["cloud"], pipeline.Result{Seq: s, Last: s, Chain: s * 1e15, Pos: pipeline.Position(s), Kind: pipeline.ResultData, Time: -int64(s), Payload: fmt.Appendf(nil, `{"n":%d}`, s)})
	}
	return c
}

func create(t *testing.T, fsys disk.FS, c *content) savepoint.Summary {
	t.Helper()
	sum, err := savepoint.Create(t.Context(), fsys, "/save/s1", c.content(), codec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func open(fsys disk.FS, name string) (*savepoint.File, error) {
	b, err := disk.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	return savepoint.Open(context.Background(), bytes.NewReader(b), int64(len(b)), codec, nil)
}

// read gives all that a file holds.
func read(t *testing.T, f *savepoint.File) *content {
	t.Helper()
	c := &content{head: f.Head, results: map[string][]pipeline.Result{}}
	for _, tab := range f.Head.Tables {
		var list []entry
		spec, found, err := f.Entries(tab.UID, tab.Name, func(key, sub, val []byte) error {
			list = append(list, entry{string(key), string(sub), string(val)})
			return nil
		})
		if err != nil || !found || spec != tab.Spec() {
			t.Fatal(spec, found, err)
		}
		c.tables = append(c.tables, list)
	}
	for _, s := range f.Head.Sinks {
		if err := f.Results(s.UID, func(r *pipeline.Result) error {
			got := *r
			got.Payload = bytes.Clone(r.Payload)
			c.results[s.UID] = append(c.results[s.UID], got)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestSavepointGivesBackWhatItWasMadeOf(t *testing.T) {
	for _, n := range []int{0, 1, 100, 20_000} {
		m, want := disktest.NewMem(), example(n)
		sum := create(t, m, want)
		f, err := open(m, "/save/s1")
		if err != nil {
			t.Fatal(n, err)
		}
		if sum != f.Summary || sum.Entries != uint64(2*n) || sum.Results != uint64(n+10-4+1) {
			t.Errorf("%d: %+v, read %+v", n, sum, f.Summary)
		}
		want.head.Format, want.head.Version = savepoint.Format, savepoint.Version
		got := read(t, f)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(content{}, entry{})); d != "" {
			t.Errorf("%d entries: %s", n, d)
		}
		if _, found, _ := f.Entries("avg", "none", nil); found {
			t.Error("a table that is not there")
		}
	}
}

// TestNoSavepointIsOverwritten: a name is given once.
func TestNoSavepointIsOverwritten(t *testing.T) {
	m := disktest.NewMem()
	create(t, m, example(3))
	_, err := savepoint.Create(t.Context(), m, "/save/s1", example(4).content(), codec, nil)
	if !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	if f, err := open(m, "/save/s1"); err != nil || f.Summary.Entries != 6 {
		t.Fatal(err)
	}
}

// TestDamageIsNamed: no byte can change, and none be missing, without an error; a newer version is told from damage.
func TestDamageIsNamed(t *testing.T) {
	m := disktest.NewMem()
	create(t, m, example(20))
	b, _ := disk.ReadFile(m, "/save/s1")
	try := func(b []byte) error {
		_, err := savepoint.Open(t.Context(), bytes.NewReader(b), int64(len(b)), codec, nil)
		return err
	}
	for i := range b {
		for _, bit := range []byte{1, 128} {
			c := bytes.Clone(b)
			c[i] ^= bit
			if err := try(c); !errors.Is(err, savepoint.ErrChecksum) && !errors.Is(err, savepoint.ErrNotSavepoint) {
				t.Fatalf("byte %d flipped: %v", i, err)
			}
		}
		if err := try(b[:i]); !errors.Is(err, savepoint.ErrChecksum) && !errors.Is(err, savepoint.ErrNotSavepoint) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if err := try(append(bytes.Clone(b), 0)); !errors.Is(err, savepoint.ErrChecksum) {
		t.Fatal(err)
	}
}

// TestFullDiskLeavesNothing: the error says so, and the next try works.
func TestFullDiskLeavesNothing(t *testing.T) {
	m := disktest.NewMem()
	f := disktest.NewFaulty(m)
	f.LimitSpace(5000)
	_, err := savepoint.Create(t.Context(), f, "/save/s1", example(2000).content(), codec, nil)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if names, _ := m.List("/save"); len(names) > 0 {
		t.Fatal(names)
	}
	f.LimitSpace(1 << 30)
	create(t, f, example(2000))
}

// TestWholeOrAbsent: after a power cut at any instant the name is not there, or holds the whole savepoint; and it is there once Create has
// returned. Two planted faults, a missing sync of the data and of the directory, are found by the same.
func TestWholeOrAbsent(t *testing.T) {
	run := func(wrap func(disk.FS) disk.FS) (bad, states int) {
		m := disktest.NewMem()
		_ = m.MkdirAll("/save")
		var c disktest.Crasher
		done := uint64(0)
		check := func(string) {
			c.Images(m, done, func(img *disktest.Mem) {
				f, err := open(img, "/save/s1")
				switch {
				case errors.Is(err, fs.ErrNotExist) && done == 0:
				case err != nil || f.Summary.Entries != 400:
					bad++
				}
				if _, err := savepoint.Create(context.Background(), img, "/save/s2", example(1).content(), codec, nil); err != nil {
					bad++ // what is left over is in the way of the next
				}
			})
		}
		m.OnOp(check)
		if _, err := savepoint.Create(t.Context(), wrap(m), "/save/s1", example(200).content(), codec, nil); err != nil {
			t.Fatal(err)
		}
		done = 1
		m.OnOp(nil)
		check("")
		return bad, c.Distinct()
	}
	if bad, states := run(func(f disk.FS) disk.FS { return f }); bad > 0 || states < 10 {
		t.Errorf("%d of %d states are wrong", bad, states)
	}
	if bad, _ := run(func(f disk.FS) disk.FS { return noDirSync{f} }); bad == 0 {
		t.Error("a missing directory sync is not found")
	}
	if bad, _ := run(func(f disk.FS) disk.FS { return noFileSync{f} }); bad == 0 {
		t.Error("a missing file sync is not found")
	}
}

type noDirSync struct{ disk.FS }

func (noDirSync) SyncDir(string) error { return nil }

type noFileSync struct{ disk.FS }

func (n noFileSync) Create(name string) (disk.File, error) {
	f, err := n.FS.Create(name)
	return unsynced{f}, err
}

type unsynced struct{ disk.File }

func (unsynced) Sync() error { return nil }

// TestGolden: savepoints of earlier releases are read for ever. A change of the format is a new version and a new file here.
func TestGolden(t *testing.T) {
	const name = "testdata/savepoint-v1.cbor"
	want := example(5)
	if *rewrite {
		m := disktest.NewMem()
		create(t, m, want)
		b, _ := disk.ReadFile(m, "/save/s1")
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := savepoint.Open(t.Context(), bytes.NewReader(b), int64(len(b)), codec, nil)
	if err != nil {
		t.Fatal(err)
	}
	want.head.Format, want.head.Version = savepoint.Format, savepoint.Version
	if d := cmp.Diff(want, read(t, f), cmp.AllowUnexported(content{}, entry{})); d != "" {
		t.Error(d)
	}
}

// TestErrorsOfWhoWrites: what would make an unreadable file is refused before it is one.
func TestErrorsOfWhoWrites(t *testing.T) {
	for what, change := range map[string]func(*content){
		"keys that do not rise":       func(c *content) { c.tables[0][1] = c.tables[0][0] },
		"a result that is missing":    func(c *content) { c.results["cloud"] = c.results["cloud"][1:] },
		"a last result that lacks":    func(c *content) { c.results["cloud"] = c.results["cloud"][:3] },
		"no results where some lack":  func(c *content) { c.results["local"] = nil },
		"a result behind the last":    func(c *content) { c.head.Sinks[0].Seq-- },
		"two tables of one name":      func(c *content) { c.head.Tables[1] = c.head.Tables[0] },
		"a pipeline without identity": func(c *content) { c.head.UUID = nil },
		"an entry that is too large":  func(c *content) { c.tables[2][0].val = string(make([]byte, 18<<20)) },
	} {
		m, c := disktest.NewMem(), example(20)
		change(c)
		if _, err := savepoint.Create(t.Context(), m, "/save/s1", c.content(), codec, nil); err == nil {
			t.Errorf("%s: accepted", what)
		}
		if names, _ := m.List("/save"); len(names) > 0 {
			t.Errorf("%s: left %v", what, names)
		}
	}
}

// TestGoldenIsWritten: the bytes of a savepoint do not change within a format version.
func TestGoldenIsWritten(t *testing.T) {
	want, err := os.ReadFile("testdata/savepoint-v1.cbor")
	if err != nil {
		t.Fatal(err)
	}
	m := disktest.NewMem()
	create(t, m, example(5))
	if b, _ := disk.ReadFile(m, "/save/s1"); !bytes.Equal(b, want) {
		t.Errorf("%d bytes are written, not the %d of the golden file", len(b), len(want))
	}
}
