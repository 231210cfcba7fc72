package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/exec"
)

// tapReport is how often a tap tells of dropped rows when nothing else is to be told.
const tapReport = time.Second

// TapPipeline calls line with what passes steps of a running pipeline, as JSON objects, until ctx ends, count rows were told (0: no limit), or
// the pipeline's run ends. The pipeline never waits for it: rows that line is too slow for are dropped, and a line says how many.
func (a *Agent) TapPipeline(ctx context.Context, name string, o api.TapOptions, line func(b []byte, more bool) error) error {
	at, err := a.regionWith(name, o)
	if err != nil {
		return err
	}
	tap, err := at.engine.Tap(o.Steps, o.Sources)
	if errors.Is(err, exec.ErrNoEdge) {
		return notFound{err}
	}
	if err != nil {
		return err
	}
	defer tap.Close()
	w := tapWriter{tap: tap, line: line}
	if err := line([]byte(`{"tap":"open"}`), false); err != nil {
		return err
	}
	for told := uint64(0); o.Count == 0 || told < o.Count; {
		row, err := w.next(ctx)
		switch {
		case errors.Is(err, exec.ErrStopped):
			if err := w.report(); err != nil {
				return err
			}
			return line([]byte(`{"end":"the pipeline stopped or restarts"}`), false)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			if err := w.report(); err != nil {
				return err
			}
			continue
		case err != nil:
			return nil // who asked has gone
		}
		if err := w.write(row); err != nil {
			return err
		}
		told++
	}
	return w.report()
}

// notFound is an error that the API answers with 404.
type notFound struct{ error }

func (notFound) Is(target error) bool { return target == api.ErrNotFound }

// tapWriter tells of rows, and of those that were dropped.
type tapWriter struct {
	tap     *exec.Tap
	line    func(b []byte, more bool) error
	dropped uint64 // told so far
	last    time.Time
	buf     []byte
}

func (w *tapWriter) next(ctx context.Context) (exec.TappedRow, error) {
	wait, cancel := context.WithTimeout(ctx, tapReport)
	defer cancel()
	return w.tap.Next(wait)
}

// report tells of rows dropped since the last report.
func (w *tapWriter) report() error {
	w.last = time.Now()
	n := w.tap.Dropped()
	if n == w.dropped {
		return nil
	}
	w.buf = append(strconv.AppendUint(append(w.buf[:0], `{"dropped":`...), n-w.dropped, 10), '}')
	w.dropped = n
	return w.line(w.buf, w.tap.Waiting() > 0)
}

func (w *tapWriter) write(row exec.TappedRow) error {
	w.buf = appendTapped(w.buf[:0], &row)
	if err := w.line(w.buf, w.tap.Waiting() > 0); err != nil {
		return err
	}
	if w.tap.Waiting() == 0 || time.Since(w.last) > tapReport { // it caught up, or never does
		return w.report()
	}
	return nil
}

// appendTapped makes {"from":…,"position":…,"time":…,"row":{…}}; time only where the row has one.
func appendTapped(b []byte, r *exec.TappedRow) []byte {
	b = append(b, `{"from":`...)
	b = appendQuoted(b, r.From)
	b = strconv.AppendUint(append(b, `,"position":`...), uint64(r.At.Pos), 10)
	if r.Time != pipeline.NoTime {
		b = strconv.AppendInt(append(b, `,"time":`...), r.Time, 10)
	}
	columns := r.Columns
	for len(columns) > 0 && columns[len(columns)-1].Slot >= len(r.Slots) {
		columns = columns[:len(columns)-1]
	}
	row, err := codec.AppendJSON(append(b, `,"row":`...), columns, -1, r.Slots)
	if err != nil {
		return append(appendQuoted(append(b, `,"error":`...), err.Error()), '}')
	}
	return append(row, '}')
}

func appendQuoted(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil {
		panic("BUG: encode text: " + err.Error())
	}
	return append(b, q...)
}
