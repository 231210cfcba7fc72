package agent

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/links"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink"
)

// site is what the far ends of this pipeline's sinks take from the gateway.
func (a *attempt) site() *links.Site {
	s := &a.agent.config.Security
	return &links.Site{
		Board: a.agent.board(), DenyPrivate: !s.AllowPrivate, AllowPlaintext: s.AllowPlaintext, Dates: a.agent.clock.Wall, Transports: a.agent.transports,
		Broker: a.config.Broker, Logger: a.log,
	}
}

// openSink gives the engine the outbox stream of a sink, and makes the link that empties it.
func (a *attempt) openSink(uid string) (pipeline.ResultSink, error) {
	if uid == exec.DeadSink {
		return a.addLink(uid, nil, links.NewDeadEnd(a.dead))
	}
	for _, s := range a.graph.Sinks {
		if s.UID == uid {
			e, err := a.site().Endpoint(s)
			if err != nil {
				return nil, err
			}
			q, err := a.addLink(uid, s, e)
			if err != nil {
				return nil, err
			}
			return plantedRubbish(a.held.holds(), q), nil
		}
	}
	return nil, fmt.Errorf("BUG: no sink %q", uid)
}

func (a *attempt) addLink(uid string, s *plan.Sink, e uplink.Endpoint) (*outbox.Stream, error) {
	so := outbox.StreamOptions{}
	if s != nil {
		so = links.StreamOptions(s)
		so.Inherited = a.inherited(uid)
	}
	q, err := a.outbox.Stream(uid, so)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	l, err := links.New(links.Options{
		UID: uid, Sink: s, Stream: a.streamOf(uid), Queue: q, Endpoint: e, Ways: a.ways, Generation: a.generation, Incarnation: a.agent.incarnation(),
		DeadLetter: a.keepRejected, Logger: a.log,
	})
	if err != nil {
		return nil, err
	}
	a.links = append(a.links, l)
	return q, nil
}

func (a *attempt) streamOf(uid string) uplink.Stream {
	return uplink.Stream{Gateway: a.agent.gateway(), Pipeline: a.id.String(), Sink: uid}
}

// openFeed makes the feed of dead letters where the config asks for one. It connects to nothing yet.
func (a *attempt) openFeed() (err error) {
	uid := a.spec.Dead.Sink.Value
	if uid == "" {
		return nil
	}
	sinks := a.spec.Sinks
	if a.spec.Whole != nil { // a region: the sink may be in another one
		sinks = a.spec.Whole.Sinks
	}
	for _, s := range sinks {
		if s.UID.Value == uid {
			a.feed, err = links.NewDeadFeed(links.DeadOptions{
				Site: a.site(), Sink: s, Gateway: a.agent.gateway(), Pipeline: a.id.String(), Incarnation: a.agent.incarnation(), Store: a.dead, Letter: letterOf, Logger: a.log,
			})
			return err
		}
	}
	return fmt.Errorf("BUG: no sink %q for dead letters", uid)
}

// newWays makes the metered links of a config. They are made before there is a clock, and ask it when they run.
func (a *Agent) newWays(list []*config.Link) map[string]*uplink.Link {
	return links.Ways(list, func() pipeline.Stamp { return a.clock.Stamp() })
}
