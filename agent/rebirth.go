package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/mqtt"
	"github.com/weirstream/weir/pipeline/plan"
)

// rebirths asks Sparkplug nodes for their birth certificates. That is no result of a pipeline: a request leaves once per hole in a node's
// messages, whatever number of pipelines see it, and never for what a restarted agent reads again. What a crash took may be asked for once
// more, when the node goes on without a birth.
//
// mu guards nodes and sent. run is the only one that publishes.
type rebirths struct {
	fresh   pipeline.Position // what lies above was journaled by this process
	publish func(broker, topic string, payload []byte) error
	log     *slog.Logger
	wake    chan struct{}

	mu    sync.Mutex
	nodes map[sparkplugNode]*rebirth
	sent  map[string]uint64 // per broker
}

type sparkplugNode struct{ broker, group, edge string }

// rebirth is what was asked of a node.
type rebirth struct {
	since   pipeline.Position // the hole
	every   time.Duration
	pending bool
	sentAt  time.Time // zero: never
}

const (
	// rebirthNodesMax bounds the memory: whoever can publish chooses the names of nodes. A node beyond it is not asked.
	rebirthNodesMax = 20_000
	// rebirthGap keeps requests to many nodes apart: their births are large.
	rebirthGap = 100 * time.Millisecond
	// rebirthRetry is how often a session that is not ready is tried.
	rebirthRetry = time.Second
)

func newRebirths(fresh pipeline.Position, publish func(broker, topic string, payload []byte) error, log *slog.Logger) *rebirths {
	return &rebirths{fresh: fresh, publish: publish, log: log, wake: make(chan struct{}, 1), nodes: map[sparkplugNode]*rebirth{}, sent: map[string]uint64{}}
}

// wish takes what a decoder saw at a position. It does not block.
func (r *rebirths) wish(broker string, every time.Duration, pos pipeline.Position, w codec.Wish) {
	node := sparkplugNode{broker, w.Group, w.Edge}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.nodes[node]
	if w.Kind == codec.WishGranted {
		if known != nil && pos > known.since {
			known.pending = false
		}
		return
	}
	if pos <= r.fresh || known != nil && known.since >= w.Since {
		return
	}
	if known == nil {
		if len(r.nodes) >= rebirthNodesMax {
			return
		}
		known = &rebirth{}
		r.nodes[node] = known
	}
	known.since, known.every, known.pending = w.Since, every, true
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// due gives the node to be asked next and how long to wait for it; ok is false when none waits.
func (r *rebirths) due(now time.Time) (node sparkplugNode, wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var waiting []sparkplugNode
	left := func(n sparkplugNode) time.Duration {
		k := r.nodes[n]
		if k.sentAt.IsZero() {
			return 0
		}
		return max(0, k.every-now.Sub(k.sentAt))
	}
	for n, k := range r.nodes {
		if k.pending {
			waiting = append(waiting, n)
		}
	}
	if len(waiting) == 0 {
		return node, 0, false
	}
	node = slices.MinFunc(waiting, func(a, b sparkplugNode) int {
		return cmp.Or(cmp.Compare(left(a), left(b)), cmp.Compare(r.nodes[a].since, r.nodes[b].since), cmp.Compare(a.edge, b.edge))
	})
	return node, left(node), true
}

// run sends the requests until ctx ends.
func (r *rebirths) run(ctx context.Context) error {
	for ctx.Err() == nil {
		node, wait, waiting := r.due(time.Now())
		switch {
		case !waiting:
			r.sleep(ctx, time.Hour, r.wake)
		case wait > 0:
			r.sleep(ctx, wait, r.wake)
		default:
			r.sleep(ctx, r.send(node, time.Now()), nil) // whoever wakes it: the gap holds
		}
	}
	return nil
}

func (r *rebirths) sleep(ctx context.Context, wait time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// send asks a node; it gives the time to wait before the next.
func (r *rebirths) send(n sparkplugNode, now time.Time) time.Duration {
	r.mu.Lock()
	since := r.nodes[n].since
	r.mu.Unlock()
	err := r.publish(n.broker, "spBv1.0/"+n.group+"/NCMD/"+n.edge, codec.AppendRebirth(nil, now.UnixMilli()))
	if errors.Is(err, mqtt.ErrNotReady) {
		return rebirthRetry
	}
	if err != nil { // the connection broke under it; it may have left: it is not repeated
		r.log.Warn("rebirth request may not have left", "broker", n.broker, "group", n.group, "edge", n.edge, "error", err)
	} else {
		r.log.Info("rebirth requested", "broker", n.broker, "group", n.group, "edge", n.edge)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.nodes[n]
	k.sentAt = now
	k.pending = k.pending && k.since != since // one that came meanwhile waits for its turn
	r.sent[n.broker]++
	return rebirthGap
}

func (r *rebirths) sentTo(broker string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[broker]
}

// wished is exec.Options.Ask.
func (a *Agent) wished(s *plan.Source, d *plan.TopicDecoder, pos pipeline.Position, w codec.Wish) {
	if d.RebirthEveryMs == 0 {
		return
	}
	for _, c := range a.roster.Load().config.Sources {
		if c.Name.Value == s.Name {
			a.rebirths.wish(c.Broker.Value, time.Duration(d.RebirthEveryMs)*time.Millisecond, pos, w)
			return
		}
	}
}

// publish sends through a broker's session.
func (a *Agent) publish(broker, topic string, payload []byte) error {
	for _, s := range a.sessions() {
		if s.name == broker {
			return s.mqtt.Publish(topic, payload)
		}
	}
	return mqtt.ErrNotReady
}
