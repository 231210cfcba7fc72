package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
)

// Stranded is what lies on a device and is neither upstream nor in what it has delivered (RULES 29).
type Stranded struct {
	Gateway     string             `json:"gateway"`
	Incarnation string             `json:"incarnation"`
	Board       string             `json:"board"`
	Fenced      string             `json:"fenced,omitempty"` // why; "" it is not
	Results     uint64             `json:"results"`          // made, and confirmed by no upstream
	Records     uint64             `json:"records"`          // received and acknowledged, behind the newest checkpoint of a pipeline: of no result yet
	Bytes       int64              `json:"bytes"`            // of both
	Pipelines   []StrandedPipeline `json:"pipelines"`
}

// StrandedPipeline is where one pipeline stands.
type StrandedPipeline struct {
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	Checkpoint uint64 `json:"checkpoint"`
	Position   uint64 `json:"position"` // records up to it are in its results and its state
	Results    uint64 `json:"results"`
}

// handover hears what lies on a device; nil functions are left out.
type handover struct {
	result func(*strandedResult) error
	record func(*pipeline.Entry) error
}

type strandedResult struct {
	pipeline, stream string
	generation       uint64
	incarnation      outbox.Incarnation
	pipeline.Result
}

// countStranded looks through what the stopped pipelines have left.
func (a *Agent) countStranded(ctx context.Context) (*Stranded, error) {
	return a.strand(ctx, handover{})
}

// strand goes through what no upstream has: first the results, pipeline by pipeline, sink by sink, in the order of their numbers; then the records. No pipeline may run.
func (a *Agent) strand(ctx context.Context, to handover) (*Stranded, error) {
	s := &Stranded{Gateway: a.gateway(), Incarnation: a.incarnation().String(), Board: a.board(), Pipelines: []StrandedPipeline{}}
	a.fence.mu.Lock()
	if f := a.fence.by; f != nil {
		s.Fenced = f.Why()
	}
	a.fence.mu.Unlock()
	low, known := a.journal.Last(), false
	runs, back, err := a.applier.committed(a.all())
	if err == nil && len(back) == 0 {
		back, err = a.upgrader.uncommitted()
	}
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		var left *saved
		if at, ok := back[r.Name.Value]; ok {
			left = &at
		}
		p, err := a.strandPipeline(ctx, r, left, s, to)
		if err != nil {
			return nil, fmt.Errorf("pipeline %s: %w", r.Name.Value, err)
		}
		if p == nil {
			continue // it has never run
		}
		s.Pipelines = append(s.Pipelines, *p)
		low, known = min(low, pipeline.Position(p.Position)), true
	}
	if !known {
		low = a.journal.First() - 1
	}
	return s, a.strandRecords(low, s, to)
}

// strandPipeline goes through the results of one pipeline; left is where an apply or an upgrade left it that may be gone back from, nil: there is none.
func (a *Agent) strandPipeline(ctx context.Context, r run, left *saved, s *Stranded, to handover) (*StrandedPipeline, error) {
	id, err := statedir.ParseUUID(a.registry.UUID(r.Name.Value))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(a.pipelinesDir(), id.String())
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	at := &attempt{agent: a, spec: r.Pipeline, graph: r.Graph, steps: r.Steps, id: id, log: a.log.With("pipeline", r.Name.Value)}
	defer at.close()
	if err := at.openStorage(ctx, dir); err != nil {
		return nil, err
	}
	restored, err := snapshot.Restore(ctx, snapshot.RestoreOptions{ // it tells the outbox what upstream had confirmed, also where left counts
		Store: at.store, Pipeline: id, Incarnations: a.lineage(), Whole: at.whole, JournalNext: a.journal.Last() + 1, Logger: at.log,
	})
	if errors.Is(err, snapshot.ErrNoCheckpoint) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := restored.Manifest
	p := &StrandedPipeline{Name: r.Name.Value, UUID: id.String(), Checkpoint: m.ID, Position: uint64(m.Position)}
	pin := at.outbox.Pin()
	defer pin.Release()
	marks := m.Sinks
	if left != nil {
		p.Checkpoint, p.Position, marks = left.Checkpoint, left.Position, nil
		for _, e := range left.Ends {
			w, _ := pin.Waiting(e.UID)
			marks = append(marks, pipeline.SinkMark{UID: e.UID, Generation: w.Generation, Seq: e.Seq})
		}
	}
	for _, mark := range marks {
		w, ok := pin.Waiting(mark.UID)
		if !ok || w.Generation != mark.Generation {
			continue
		}
		stream := at.streamOf(mark.UID).String()
		err := pin.Copy(ctx, mark.UID, mark.Seq+w.Shift, func(res *pipeline.Result) error {
			n := res.Last - res.Seq + 1
			if res.Kind == pipeline.ResultGap {
				n = 0
			}
			p.Results += n
			s.Results += n
			s.Bytes += int64(len(res.Payload))
			if to.result == nil {
				return nil
			}
			return to.result(&strandedResult{pipeline: p.Name, stream: stream, generation: mark.Generation, incarnation: outbox.Incarnation(m.Incarnation), Result: *res})
		})
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// strandRecords goes through the messages behind a position.
func (a *Agent) strandRecords(after pipeline.Position, s *Stranded, to handover) error {
	return a.journal.Scan(max(after+1, a.journal.First()), func(e *pipeline.Entry) error {
		if e.Kind != pipeline.EntryMessage && e.Kind != pipeline.EntryStub {
			return nil
		}
		s.Records++
		s.Bytes += int64(len(e.Payload))
		if to.record == nil {
			return nil
		}
		return to.record(e)
	})
}

// The files of a handover.
const (
	handoverResults = "results.jsonl"
	handoverRecords = "records.jsonl"
	handoverAbout   = "handover.json"
)

// resultLine is the JSON form of a result that was not delivered. Stream, generation and seq name it for ever.
type resultLine struct {
	Pipeline    string          `json:"pipeline"`
	Stream      string          `json:"stream"`
	Generation  uint64          `json:"generation"`
	Incarnation string          `json:"incarnation"`
	Seq         uint64          `json:"seq"`
	Last        uint64          `json:"last,omitempty"` // of a gap
	Gap         string          `json:"gap,omitempty"`  // why there is none
	Position    uint64          `json:"position"`
	TimeMs      *int64          `json:"time_ms,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	Raw         []byte          `json:"data_b64,omitempty"`
}

// RecordLine is the JSON form of a message in the journal: what `weir replay --input` reads, and where it came from.
type RecordLine struct {
	N       uint64 `json:"n"` // position
	AtMs    int64  `json:"at_ms"`
	Broker  string `json:"broker,omitempty"`
	Source  string `json:"source,omitempty"`
	Topic   string `json:"topic"`
	QoS     uint8  `json:"qos"`
	Retain  bool   `json:"retain,omitempty"`
	Dup     bool   `json:"dup,omitempty"`
	Payload string `json:"payload,omitempty"`
	Raw     []byte `json:"payload_b64,omitempty"`
	Stub    bool   `json:"stub,omitempty"` // the payload was too large and is cut
}

// LineOf is a message as a line.
func LineOf(e *pipeline.Entry) RecordLine {
	l := RecordLine{
		N: uint64(e.Pos), AtMs: e.Stamp.Wall, Broker: e.Session, Source: e.Source, Topic: string(e.Topic), QoS: e.QoS, Retain: e.Retain, Dup: e.Dup,
		Stub: e.Kind == pipeline.EntryStub,
	}
	if utf8.Valid(e.Payload) {
		l.Payload = string(e.Payload)
	} else {
		l.Raw = slices.Clone(e.Payload)
	}
	return l
}

// ExportHandover writes what this device has not delivered into a new directory: results, then messages that are in no result and no state yet, and what it is. The agent must
// not run. Nothing here is changed but what any start recovers; all is durable on return, and the file that tells of it is the last.
func ExportHandover(ctx context.Context, cfg *config.Config, o Options, dir string) (*Stranded, error) {
	if r, err := identity.Load(disk.OS, cfg.StateDir.Value); err != nil {
		return nil, err
	} else if r == nil { // New would make one
		return nil, neverRan(cfg.StateDir.Value)
	}
	o.still = true
	a, err := New(cfg, o)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if err := os.Mkdir(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	var s *Stranded
	err = writeLines(filepath.Join(dir, handoverResults), func(results *json.Encoder) error {
		return writeLines(filepath.Join(dir, handoverRecords), func(records *json.Encoder) error {
			s, err = a.strand(ctx, handover{
				result: func(r *strandedResult) error { return results.Encode(lineOfResult(r)) },
				record: func(e *pipeline.Entry) error { return records.Encode(LineOf(e)) },
			})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("export the handover: %w", err)
	}
	if err := record.Write(disk.OS, filepath.Join(dir, handoverAbout), s); err != nil {
		return nil, fmt.Errorf("export the handover: %w", err)
	}
	return s, nil
}

func lineOfResult(r *strandedResult) *resultLine {
	l := &resultLine{Pipeline: r.pipeline, Stream: r.stream, Generation: r.generation, Incarnation: r.incarnation.String(), Seq: r.Seq, Position: uint64(r.Pos)}
	if r.Time != pipeline.NoTime {
		l.TimeMs = &r.Time
	}
	switch {
	case r.Kind == pipeline.ResultGap:
		l.Last, l.Gap = r.Last, string(r.Payload)
	case json.Valid(r.Payload):
		l.Data = r.Payload
	default:
		l.Raw = r.Payload
	}
	return l
}

func writeLines(name string, write func(*json.Encoder) error) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	if err := write(json.NewEncoder(out)); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// ExportRecords writes messages of the journal as lines, from a position on; 0: from the first.
func ExportRecords(j interface {
	First() pipeline.Position
	Scan(pipeline.Position, func(*pipeline.Entry) error) error
}, from pipeline.Position, w io.Writer) error {
	enc := json.NewEncoder(w)
	return j.Scan(max(from, j.First()), func(e *pipeline.Entry) error {
		if e.Kind != pipeline.EntryMessage && e.Kind != pipeline.EntryStub {
			return nil
		}
		return enc.Encode(LineOf(e))
	})
}
