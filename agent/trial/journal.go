package trial

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/topic"
)

// entries makes the journal records of an arrival: one per source that asks for the topic.
func (c *Case) entries(g *plan.Graph, a *Arrival) ([]pipeline.Entry, error) {
	stamp := pipeline.Stamp{Elapsed: int64(a.At), Wall: c.Start.Add(time.Duration(a.At)).UnixMilli(), Trusted: true}
	if a.Topic == "" {
		return []pipeline.Entry{{Kind: pipeline.EntryTick, Stamp: stamp}}, nil
	}
	payload, err := a.bytes()
	if err != nil {
		return nil, err
	}
	e := pipeline.Entry{
		Kind: pipeline.EntryMessage, Stamp: stamp, QoS: uint8(a.QoS), Retain: a.Retain, Dup: a.Dup, Topic: []byte(a.Topic), Payload: payload,
	}
	var list []pipeline.Entry
	for _, s := range g.Sources {
		if topic.Match(s.Filter, e.Topic) {
			e.Source = s.Name
			list = append(list, e)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no source of the pipeline reads the topic %q", a.Topic)
	}
	return list, nil
}

func (a *Arrival) bytes() ([]byte, error) {
	switch p := a.Payload.(type) {
	case nil:
		b, err := base64.StdEncoding.DecodeString(a.Base64)
		if err != nil {
			return nil, fmt.Errorf("payload_b64: %w", err)
		}
		return b, nil
	case string:
		return []byte(p), nil
	default:
		b, err := json.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("payload as JSON: %w", err)
		}
		return b, nil
	}
}

// errEnd ends a run whose event time is not to go to infinity.
var errEnd = errors.New("end of the case")

// end is what the journal says at its end: io.EOF drains.
func (c *Case) end() error {
	if c.Drain != nil && !*c.Drain {
		return errEnd
	}
	return io.EOF
}

// engine is what the making of a journal asks of the pipeline that reads it.
type engine interface {
	Handled() pipeline.Position
	NextDeadline() int64
}

// maker hands out the arrivals one by one, each once the one before was worked through, and puts a tick wherever a timer is due
// before the next arrival. One goroutine, the engine's fetch, owns it.
type maker struct {
	c       *Case
	graph   *plan.Graph
	engine  func() engine
	next    int // arrival
	journal []pipeline.Entry
	ticks   int
}

// ticksMax bounds a case whose timers never end: a pipeline that sets a timer whenever one fires.
const ticksMax = 1_000_000

func (m *maker) Next(ctx context.Context) (*pipeline.Block, error) {
	if err := settle(ctx, m.engine(), pipeline.Position(len(m.journal))); err != nil {
		return nil, err
	}
	if m.next >= len(m.c.Input) {
		return nil, m.c.end()
	}
	a := &m.c.Input[m.next]
	list, err := m.due(a)
	if err == nil && list == nil {
		m.next++
		if list, err = m.c.entries(m.graph, a); err != nil {
			err = fmt.Errorf("input %d: %w", m.next, err)
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Pos = pipeline.Position(len(m.journal) + 1)
		m.journal = append(m.journal, list[i])
	}
	return &pipeline.Block{First: list[0].Pos, Last: list[len(list)-1].Pos, Entries: list}, nil
}

// due gives a tick when a timer waits for a time before the arrival.
func (m *maker) due(a *Arrival) ([]pipeline.Entry, error) {
	deadline := m.engine().NextDeadline()
	if deadline >= int64(a.At) || len(m.journal) == 0 {
		return nil, nil
	}
	if m.ticks++; m.ticks > ticksMax {
		return nil, fmt.Errorf("more than %d timers fired", ticksMax)
	}
	at := max(deadline, m.journal[len(m.journal)-1].Stamp.Elapsed+1)
	if at >= int64(a.At) {
		return nil, nil
	}
	return m.c.entries(m.graph, &Arrival{At: duration(at)})
}

// settle waits until the engine has worked through the journal so far.
func settle(ctx context.Context, e engine, last pipeline.Position) error {
	for spins := 0; e.Handled() < last; spins++ {
		if spins < 100 { // a record takes microseconds, the shortest sleep a millisecond
			runtime.Gosched()
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Microsecond):
		}
	}
	return nil
}

func (m *maker) Close() error { return nil }
