package state_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/pipeline/window"
	"github.com/weirstream/weir/store/pebblekv"
)

const (
	windowKeys = 2_000_000
	// windowMiB bounds a process with windows of so many keys: state.memory, and what Pebble and the program have besides.
	windowMiB = 192
	// instant is how many rows, a ms apart, come between two watermarks.
	instant = 1000
	// checkpointRows lie between two checkpoints.
	checkpointRows = 100_000
)

// TestWindowsFit: sessions and hopping windows of 2M keys, with state.memory at its default.
func TestWindowsFit(t *testing.T) {
	if !pebblekv.Built {
		t.Skip("built without Pebble")
	}
	for _, kind := range []string{"session", "hopping"} {
		large := child(t, kind+"-large")
		if got := large["resident_MiB"]; got > windowMiB {
			t.Errorf("%s windows of 2M keys take %.0f MiB, want %d at most", kind, got, windowMiB)
		}
		if memory := child(t, kind+"-memory"); memory["emitted"] != large["emitted"] {
			t.Errorf("%s: %.0f rows in large tables, %.0f in memory", kind, large["emitted"], memory["emitted"])
		}
	}
}

func init() {
	for kind, run := range map[string]func(func(state.Spec) *state.Table) error{"session": sessions, "hopping": hoppings} {
		roles[kind+"-memory"] = func() error { return run(state.New) }
		roles[kind+"-large"] = func() error { return inPebble(run) }
	}
}

func inPebble(run func(func(state.Spec) *state.Table) error) error {
	dir, err := os.MkdirTemp("", "weir-state-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, pool, err := pebblekv.OpenPool(pebblekv.Options{Dir: filepath.Join(dir, "state"), MemoryBytes: stateMemory})
	if err != nil {
		return err
	}
	err = run(pool.New)
	m := db.Metrics()
	fmt.Printf("disk_MB %.0f\nwritten_MB %.0f\n", float64(m.Disk)/1e6, float64(m.Written)/1e6)
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

// driver runs a window over keys that come in no order, with checkpoints as they are written.
type driver struct {
	op     pipeline.Operator
	out    *pipeline.Out
	table  func(state.Spec) *state.Table
	tables []*state.Table
	row    pipeline.Row
	key    [16]byte
	rows   int
	time   int64
}

func (d *driver) Table(spec state.Spec) (*state.Table, error) {
	t := d.table(spec)
	d.tables = append(d.tables, t)
	return t, nil
}

func drive(op pipeline.Operator, table func(state.Spec) *state.Table) (*driver, error) {
	d := &driver{op: op, out: pipeline.NewOut("", 2), table: table}
	d.out.Reuse = true
	d.row.Slots = []pipeline.Value{{}, pipeline.FloatValue(1)}
	return d, op.Open(d)
}

// feed is a row of a key at a time, and what follows it now and then.
func (d *driver) feed(key int, time int64) error {
	binary.BigEndian.PutUint64(d.key[:], scatter(key))
	d.row.Slots[0] = pipeline.StringValue(fmt.Sprintf("%x", d.key[:8]))
	d.row.Time = time
	d.out.At = pipeline.At{Pos: 1, Phase: pipeline.During}
	d.op.Process(0, &d.row, d.out)
	if d.rows++; d.rows%instant == 0 {
		d.watermark(d.time)
	}
	if d.rows%checkpointRows != 0 {
		return nil
	}
	for _, t := range d.tables {
		if _, err := checkpoint(t); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) watermark(w int64) {
	d.out.At = pipeline.At{Pos: 1, Phase: pipeline.After}
	d.op.Watermark(w, d.out)
	d.out.Reset()
}

func (d *driver) print(name string, since int64) {
	entries := 0
	for _, t := range d.tables {
		entries += t.Len()
	}
	fmt.Printf("%s_us_per_key %.1f\n%s_entries %d\n%s_MiB %.0f\n", name, float64(cpu()-since)/windowKeys/1e3, name, entries, name, resident())
}

// fill brings each key once, a ms apart.
func (d *driver) fill() error {
	start := cpu()
	for i := range windowKeys {
		d.time++
		if err := d.feed(i, d.time); err != nil {
			return err
		}
	}
	d.print("fill", start)
	return nil
}

// end lets the watermark go on by steps, from where the first windows end, until a tenth of the keys is behind.
func (d *driver) end(from, step int64) error {
	start := cpu()
	d.time = max(d.time, from)
	for n := range windowKeys / 10 / step {
		d.time += step
		if d.watermark(d.time); n%50 == 0 {
			for _, t := range d.tables {
				if _, err := checkpoint(t); err != nil {
					return err
				}
			}
		}
	}
	d.print("end", start)
	fmt.Printf("emitted %d\nresident_MiB %.0f\n", d.out.Counters.Emitted, resident())
	return nil
}

func windowConfig() window.Config {
	value := optest.Expr("value")
	return window.Config{
		Key: []int{0}, Width: 6, KeyOut: []int{0}, StartSlot: 1, EndSlot: 2, RevisionSlot: 3,
		Aggs: []window.Agg{{Kind: window.CountRows, Slot: 4}, {Kind: window.Avg, Arg: value, Slot: 5}},
	}
}

// sessions are all open at once; rows of some of them make their ends move, then they end one after the other.
func sessions(table func(state.Spec) *state.Table) error {
	d, err := drive(window.NewSession(window.SessionConfig{Config: windowConfig(), GapMs: 2 * windowKeys}), table)
	if err != nil {
		return err
	}
	if err := d.fill(); err != nil {
		return err
	}
	start := cpu()
	for i := range windowKeys / 20 {
		d.time++
		if err := d.feed(i*7919%windowKeys, d.time); err != nil {
			return err
		}
	}
	d.print("moved", start)
	return d.end(2*windowKeys, instant)
}

// hoppings are windows of two panes, which their lateness keeps; late rows make some come out again.
func hoppings(table func(state.Spec) *state.Table) error {
	c := window.HoppingConfig{Config: windowConfig(), SizeMs: 20_000, SlideMs: 10_000}
	c.LatenessMs = 2 * windowKeys
	d, err := drive(window.NewHopping(c), table)
	if err != nil {
		return err
	}
	if err := d.fill(); err != nil {
		return err
	}
	start := cpu()
	for i := range windowKeys / 100 {
		key := i * 7919 % windowKeys
		if err := d.feed(key, int64(key)); err != nil {
			return err
		}
	}
	d.print("late", start)
	return d.end(c.LatenessMs, instant)
}
