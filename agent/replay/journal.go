package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/weirstream/weir/pipeline"
)

// Route tells which source of the pipeline a topic belongs to.
type Route struct {
	Source string
	Match  func(topic []byte) bool
}

// journal is the recording as a pipeline sees it: one entry per delivery and matching source. Wall time is at_ms and is
// trusted; elapsed time is the time since the first delivery and never goes back.
type journal struct {
	in      *Deliveries
	tidy    *tidy
	routes  []Route
	next    pipeline.Position
	firstMs int64
	started bool
	elapsed int64
	rows    int
	unused  uint64 // deliveries that no source asked for
	failed  error
	cache   map[string][]string
}

const topicCacheMax = 4096

func (j *journal) Next(context.Context) (*pipeline.Block, error) {
	if j.failed != nil {
		return nil, j.failed
	}
	b := &pipeline.Block{Entries: make([]pipeline.Entry, 0, j.rows)}
	for len(b.Entries) < j.rows {
		d, err := j.in.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("read input: %w", err)
			}
			j.failed = err
			if len(b.Entries) == 0 || !errors.Is(err, io.EOF) {
				return nil, err
			}
			break
		}
		j.add(b, &d)
	}
	j.tidy.count(len(b.Entries))
	b.First, b.Last = b.Entries[0].Pos, b.Entries[len(b.Entries)-1].Pos
	return b, nil
}

func (j *journal) add(b *pipeline.Block, d *Delivery) {
	if !j.started {
		j.started, j.firstMs = true, d.AtMs
	}
	j.elapsed = max(j.elapsed, (d.AtMs-j.firstMs)*1e6)
	stamp := pipeline.Stamp{Elapsed: j.elapsed, Wall: d.AtMs, Trusted: true}
	sources := j.sources(d.Topic)
	if len(sources) == 0 {
		j.unused++
		sources = []string{""} // it takes a position and moves the clock, as in the agent's journal
	}
	for _, s := range sources {
		b.Entries = append(b.Entries, pipeline.Entry{
			Pos: j.next, Stamp: stamp, Kind: pipeline.EntryMessage, QoS: d.QoS, Retain: d.Retain, Dup: d.Dup,
			Source: s, Topic: bytesOf(d.Topic), Payload: bytesOf(d.Payload),
		})
		j.next++
	}
}

// bytesOf shares the memory: entries are immutable.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func (j *journal) sources(topic string) []string {
	if s, ok := j.cache[topic]; ok {
		return s
	}
	var s []string
	for _, r := range j.routes {
		if r.Match([]byte(topic)) {
			s = append(s, r.Source)
		}
	}
	if len(j.cache) >= topicCacheMax {
		clear(j.cache)
	}
	j.cache[topic] = s
	return s
}

func (j *journal) Close() error { return nil }
