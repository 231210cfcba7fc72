package state_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
)

// keysRatioMax: CPU per record at 1M keys against that at 1k keys, backend memory.
const keysRatioMax = 3.0

const keysConfig = `
sources:
  s:
    mqtt: {broker: none, topic: "t/{k}", qos: 1}
    decode: json
    fields: {device: string, temp: float, ts: int}
    time: {field: ts, unit: ms, out_of_orderness: 0s}
pipelines:
  p:
    steps:
      - {uid: d, from: s, by: [device], deadband: {value: temp, threshold: 0.5}}
    sinks:
      - {uid: out, from: d, file: {path: out.jsonl}}
`

// TestManyKeysCostLittle: a record's CPU in a whole pipeline (decode, deadband by key, sink) grows little with the number of keys.
func TestManyKeysCostLittle(t *testing.T) {
	few, many := child(t, "memory-small")["us_per_record"], child(t, "memory-1M")["us_per_record"]
	t.Logf("1M keys cost %.2f times 1k keys", many/few)
	if many > keysRatioMax*few {
		t.Errorf("%.2f us per record at 1M keys, %.2f at 1k: more than %.0f times", many, few, keysRatioMax)
	}
}

// updates runs records of so many keys through a pipeline, each key once before it counts, and prints the CPU per record.
func updates(keys int) error {
	cfg, err := config.Parse("bench.yaml", []byte(keysConfig))
	if err != nil {
		return err
	}
	b := &drawn{keys: keys, left: keys, random: rand.New(rand.NewPCG(1, 2))}
	const counted = 2_000_000
	b.then = counted
	p, err := exec.New(exec.Options{
		Graph: cfg.Pipelines[0].Graph, Generation: 1,
		Read:    func(pipeline.Position) (pipeline.BlockReader, error) { return b, nil },
		Sink:    func(string) (pipeline.ResultSink, error) { return discard{}, nil },
		Deliver: func(pipeline.TaskSnapshot) {},
	})
	if err != nil {
		return err
	}
	if err := p.Run(context.Background()); err != nil {
		return err
	}
	fmt.Printf("us_per_record %.3f\nresident_MiB %.0f\n", float64(cpu()-b.began)/counted/1e3, resident())
	return nil
}

// drawn is a journal of random records: first each key once, then any.
type drawn struct {
	keys, left, then int
	next             pipeline.Position
	random           *rand.Rand
	began            int64 // CPU time when every key was there
	payloads         []byte
}

func (d *drawn) Next(context.Context) (*pipeline.Block, error) {
	if d.left == 0 {
		if d.then == 0 {
			return nil, io.EOF
		}
		if d.began == 0 {
			d.began = cpu()
		}
		d.left, d.then = d.then, 0
	}
	const blockEntries = 512
	block := &pipeline.Block{First: d.next + 1}
	d.payloads = make([]byte, 0, blockEntries*64)
	for range min(blockEntries, d.left) {
		key := d.random.IntN(d.keys)
		if d.began == 0 {
			key = d.left - 1
		}
		d.left--
		d.next++
		from := len(d.payloads)
		d.payloads = fmt.Appendf(d.payloads, `{"device":"device-%07d","temp":%d,"ts":%d}`, key, d.random.IntN(100), 1767225600000+int64(d.next))
		block.Entries = append(block.Entries, pipeline.Entry{
			Pos: d.next, Kind: pipeline.EntryMessage, Source: "s", Topic: []byte("t/k"), Payload: d.payloads[from:len(d.payloads):len(d.payloads)],
		})
	}
	block.Last = d.next
	return block, nil
}

func (d *drawn) Close() error { return nil }

// discard is a sink that keeps nothing.
type discard struct{}

func (discard) Emit(context.Context, []pipeline.Result) error   { return nil }
func (discard) Barrier(context.Context, pipeline.Barrier) error { return nil }
