package replay

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
)

// printer writes the results of one sink. Sinks of different tasks share the output: lock keeps their lines whole.
type printer struct {
	uid    string
	lock   *sync.Mutex
	count  uint64
	write  func(*pipeline.Result) error
	silent bool
}

func newPrinter(o Options, uid string, out *bufio.Writer, lock *sync.Mutex) (p *printer, err error) {
	p = &printer{uid: uid, lock: lock}
	switch {
	case uid == exec.DeadSink:
		p.write = deadWriter(o.Dead)
	case o.Sink != "" && o.Sink != uid:
		p.silent = true
	case o.Format == "csv":
		sink := sinkOf(o.Graph, uid)
		if len(o.Graph.Sinks) > 1 && o.Sink == "" {
			return nil, fmt.Errorf("csv prints one sink: name it with --sink (%s)", sinkNames(o.Graph))
		}
		if sink.Whole >= 0 {
			return nil, fmt.Errorf("sink %s passes whole documents on, which have no columns; use -o jsonl, or a select step", uid)
		}
		p.write, err = csvWriter(sink.Columns, out)
	case len(o.Graph.Sinks) > 1 && o.Sink == "":
		p.write = func(r *pipeline.Result) error {
			_, err := fmt.Fprintf(out, "{\"sink\":%q,\"seq\":%d,\"record\":%s}\n", uid, r.Seq, r.Payload)
			return err
		}
	default:
		p.write = func(r *pipeline.Result) error {
			out.Write(r.Payload)
			return out.WriteByte('\n')
		}
	}
	return p, err
}

func sinkOf(g *plan.Graph, uid string) *plan.Sink {
	for _, s := range g.Sinks {
		if s.UID == uid {
			return s
		}
	}
	return nil
}

func deadWriter(w io.Writer) func(*pipeline.Result) error {
	return func(r *pipeline.Result) error {
		if w == nil {
			return nil
		}
		_, err := fmt.Fprintf(w, "dead letter %d: %s\n", r.Seq, r.Payload)
		return err
	}
}

// csvWriter writes the header at once: a sink without results is a table without rows.
func csvWriter(columns []codec.Column, out *bufio.Writer) (func(*pipeline.Result) error, error) {
	w := csv.NewWriter(out)
	header, row := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		header[i] = c.Name
	}
	if err := w.Write(header); err != nil {
		return nil, fmt.Errorf("write header: %w", err)
	}
	w.Flush()
	return func(r *pipeline.Result) error {
		var record map[string]json.RawMessage
		if err := json.Unmarshal(r.Payload, &record); err != nil {
			return fmt.Errorf("read back record %d: %w", r.Seq, err)
		}
		for i, c := range columns {
			row[i] = csvText(record[c.Name])
		}
		if err := w.Write(row); err != nil {
			return err
		}
		w.Flush()
		return w.Error()
	}, w.Error()
}

// csvText is a JSON value as a CSV cell: text without quotes, null empty, all else as written.
func csvText(v json.RawMessage) string {
	var s string
	switch {
	case len(v) == 0 || string(v) == "null":
		return ""
	case v[0] == '"' && json.Unmarshal(v, &s) == nil:
		return s
	}
	return string(v)
}

func (p *printer) Emit(_ context.Context, results []pipeline.Result) error {
	p.count += uint64(len(results))
	if p.silent {
		return nil
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	for i := range results {
		if err := p.write(&results[i]); err != nil {
			return fmt.Errorf("print result %d of %s: %w", results[i].Seq, p.uid, err)
		}
	}
	return nil
}

func (p *printer) Barrier(context.Context, pipeline.Barrier) error { return nil }
