package state_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

const joinKeys = 2_000_000

// TestRefill: what it costs to fill the tables from a checkpoint, as each start does: 10M keys of 16 B with values of 64 B, in order, and the scan of Restored.
func TestRefill(t *testing.T) {
	for _, role := range []string{"refill-memory-2M", "refill-2M", "refill-10M"} {
		child(t, role)
	}
}

// TestJoinsFit: 2M rows of as many keys that wait in an interval join, and 2M keys of a latest join: with state.memory at its default they take no more than
// other state does.
func TestJoinsFit(t *testing.T) {
	for _, name := range []string{"interval", "latest"} {
		child(t, name+"-memory")
		if !pebblekv.Built {
			continue
		}
		if got := child(t, name+"-large")["resident_MiB"]; got > largeMiB {
			t.Errorf("%s join: %d keys take %.0f MiB, want %d at most", name, joinKeys, got, largeMiB)
		}
	}
}

// withPool gives f a pool as the agent makes it.
func withPool(f func(*state.Pool, *pebblekv.DB) error) error {
	dir, err := os.MkdirTemp("", "weir-state-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := pebblekv.Open(pebblekv.Options{Dir: filepath.Join(dir, "state"), MemoryBytes: stateMemory - stateMemory/4})
	if err != nil {
		return err
	}
	err = f(state.NewPool(db, stateMemory/4), db)
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

func refill(keys int, table func(state.Spec) *state.Table) error {
	t := table(state.Spec{Name: "bench", Kind: state.Value, Type: "bench", Version: 1})
	start := cpu()
	var key [16]byte
	val := make([]byte, valueBytes)
	for i := range keys {
		binary.BigEndian.PutUint64(key[:], uint64(i)*(1<<63/uint64(keys))*2)
		for j := 0; j < len(val)/2; j += 8 { // half of it compresses
			binary.LittleEndian.PutUint64(val[j:], scatter(scatterless(i, j)))
		}
		if err := t.Load(key[:], nil, val); err != nil {
			return err
		}
	}
	t.SetNow(1)
	loaded := cpu()
	n := 0
	t.Range(func(_, _, _ []byte) bool {
		n++
		return true
	})
	if n != keys || t.Len() != keys {
		return fmt.Errorf("%d entries of %d", n, keys)
	}
	fmt.Printf("load_s %.1f\nscan_s %.1f\nresident_MiB %.0f\n", float64(loaded-start)/1e9, float64(cpu()-loaded)/1e9, resident())
	return nil
}

// scatterless gives another number for each word of an entry.
func scatterless(i, j int) int { return i*64 + j }

func refillLarge(keys int) error {
	return withPool(func(p *state.Pool, db *pebblekv.DB) error {
		err := refill(keys, p.New)
		fmt.Printf("written_MB %.0f\ndisk_MB %.0f\n", float64(db.Metrics().Written)/1e6, float64(db.Metrics().Disk)/1e6)
		return err
	})
}

// opened is an operator's tables, with what a checkpoint does to them.
type opened struct {
	make func(state.Spec) *state.Table
	list []*state.Table
}

func (o *opened) Table(spec state.Spec) (*state.Table, error) {
	o.list = append(o.list, o.make(spec))
	return o.list[len(o.list)-1], nil
}

// joined gives an operator a row of each input for each key, keys in no order, and prints the figures. joinKeys rows of the left input wait at the end.
func joined(op pipeline.Operator, table func(state.Spec) *state.Table) error {
	tables := &opened{make: table}
	if err := op.Open(tables); err != nil {
		return err
	}
	if err := op.Restored(); err != nil {
		return err
	}
	out := pipeline.NewOut("bench", 2)
	out.Reuse = true
	row := pipeline.Row{Slots: make([]pipeline.Value, 3)}
	emitted, pos := 0, pipeline.Position(0)
	feed := func(input, n int, time int64) {
		pos++
		row.At, row.Time = pipeline.At{Pos: pos, Phase: pipeline.During}, time
		row.Slots[0], row.Slots[1], row.Slots[2] = pipeline.UintValue(scatter(n)), pipeline.IntValue(int64(n)), pipeline.StringValue("a text of some thirty characters")
		out.At = row.At
		op.Process(input, &row, out)
		if pos%512 == 0 {
			emitted += len(out.Ports[0])
			out.Reset()
		}
	}
	var err error
	phase := func(name string, rows int, input int, key func(int) int) {
		start := cpu()
		for i := range rows {
			feed(input, key(i), int64(pos))
			if i%500_000 == 499_999 && err == nil {
				for _, t := range tables.list {
					if _, err = checkpoint(t); err != nil {
						return
					}
				}
			}
		}
		fmt.Printf("%s_us_per_row %.2f\n", name, float64(cpu()-start)/float64(rows)/1e3)
	}
	phase("first", joinKeys, join.Right, func(i int) int { return i })
	phase("second", joinKeys/4, join.Left, func(i int) int { return i * 7919 % joinKeys })
	start := cpu()
	out.At.Phase = pipeline.After
	op.Watermark(joinKeys/10+1_000_000_000, out) // lets a tenth go
	fmt.Printf("go_us_per_row %.2f\nrows_out %d\nresident_MiB %.0f\n", float64(cpu()-start)/(joinKeys/10)/1e3, emitted+len(out.Ports[0]), resident())
	return err
}

func side() join.Side { return join.Side{Key: []int{0}, Keep: []int{0, 1, 2}} }

func joinOutput() join.Output {
	return join.Output{Fields: []join.Field{{From: join.FromEither}, {From: join.FromLeft, Index: 1}, {From: join.FromRight, Index: 1}}, Width: 3}
}

func intervalJoin() pipeline.Operator {
	return join.NewInterval(join.IntervalConfig{
		Sides: [2]join.Side{side(), side()}, Type: join.LeftOuter, Output: joinOutput(), BeforeMs: 1_000_000_000, AfterMs: 1_000_000_000,
	})
}

func latestJoin() pipeline.Operator {
	return join.NewLatest(join.LatestConfig{Sides: [2]join.Side{side(), side()}, Type: join.LeftOuter, Output: joinOutput()})
}

func joinedLarge(op pipeline.Operator) error {
	return withPool(func(p *state.Pool, db *pebblekv.DB) error {
		err := joined(op, p.New)
		fmt.Printf("written_MB %.0f\ndisk_MB %.0f\n", float64(db.Metrics().Written)/1e6, float64(db.Metrics().Disk)/1e6)
		return err
	})
}
