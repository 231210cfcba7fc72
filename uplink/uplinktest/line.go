package uplinktest

import (
	"context"
	"sync"
	"testing"

	"github.com/weirstream/weir/uplink"
)

// Line is the way to a far end, for tests to break. rig.Proxy is one.
type Line interface {
	// Mute throws away every answer while it is on; connections stay.
	Mute(on bool)
	// Strand makes the connections that are there carry nothing more, without a sign of it. New ones are whole.
	Strand()
}

// Lined is a Far whose endpoints reach it by a line. Where the far end is here (a file, a directory), the answers are lost between
// endpoint and sender instead.
type Lined interface {
	Far
	Line() Line
}

// way gives the line of the far end, and how endpoints are connected by it.
func (s *suite) way() (Line, func(t testing.TB, board string) uplink.Endpoint) {
	if l, ok := s.far.(Lined); ok {
		return l.Line(), s.far.Connect
	}
	in := &inside{}
	return in, func(t testing.TB, board string) uplink.Endpoint { return &muffled{s.far.Connect(t, board), in} }
}

// inside is the line of a far end that is here.
type inside struct {
	mu    sync.Mutex
	muted bool
}

func (i *inside) Mute(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.muted = on
}

// Strand has nothing to do: there is no connection.
func (i *inside) Strand() {}

// lose gives the error of an answer that did not come.
func (i *inside) lose(err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.muted {
		return errLink
	}
	return err
}

// muffled does what it is asked, and its answers are lost while the line is mute.
type muffled struct {
	uplink.Endpoint
	line *inside
}

func (m *muffled) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	p, err := m.Endpoint.Open(ctx, s, inc, generation)
	if err = m.line.lose(err); err != nil {
		return uplink.Progress{}, err
	}
	return p, nil
}

func (m *muffled) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	ans, err := m.Endpoint.Send(ctx, b)
	if err = m.line.lose(err); err != nil {
		return uplink.Answer{}, err
	}
	return ans, nil
}

func (m *muffled) Confirm(ctx context.Context) (uint64, error) {
	seq, err := m.Endpoint.Confirm(ctx)
	if err = m.line.lose(err); err != nil {
		return 0, err
	}
	return seq, nil
}
