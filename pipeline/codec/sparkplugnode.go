package codec

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// sparkplugNode is what is known of an edge node. Values are sound while it is born and has no hole.
type sparkplugNode struct {
	key     string // group, a zero byte, edge
	born    bool
	next    uint8 // the sequence number that is due
	bdSeq   uint64
	hasBd   bool
	hole    pipeline.Position // of the message at which its values ceased to be sound; 0: they are
	tables  map[string]*sparkplugBirth
	dead    bool            // it is no node any more; what was saved of it is to go
	moved   bool            // since the last Save
	birthed map[string]bool // devices whose certificate came or went since the last Save; "" is the node's own
}

// sparkplugBirth is a birth certificate of the node ("") or of one of its devices.
type sparkplugBirth struct {
	metrics []bornMetric
	byName  map[string]*bornMetric
	byAlias map[uint64]*bornMetric
}

// bornMetric is what a birth certificate says of a metric.
type bornMetric struct {
	name     string
	alias    uint64
	hasAlias bool
	typ      sparkplugType
}

// Bounds of the state: whoever can publish chooses the names.
const (
	sparkplugNodesMax   = 10_000
	sparkplugMetricsMax = 250_000 // in the birth certificates of all nodes, each certificate counting as one more
)

// bdSeqMetric ties a death certificate to the birth before it.
const bdSeqMetric = "bdSeq"

func nodeKey(t *sparkplugTopic) string { return t.group + "\x00" + t.edge }

func newSparkplugNode(key string) *sparkplugNode {
	return &sparkplugNode{key: key, tables: map[string]*sparkplugBirth{}, birthed: map[string]bool{}}
}

func (d *Sparkplug) touch(n *sparkplugNode) {
	if !n.moved {
		n.moved = true
		d.changed = append(d.changed, n)
	}
}

// move takes the opened message into the state, resolves its metrics, and says whether its values are stale and what is to be asked.
// An error leaves the state alone.
func (d *Sparkplug) move(pos pipeline.Position) error {
	t := &d.topic
	n := d.nodes[nodeKey(t)]
	switch t.kind {
	case "NCMD", "DCMD": // to the node, not from it
		d.stale = false
		d.resolve(n)
		return nil
	case "NDEATH":
		d.die(n)
		return nil
	}
	if n == nil {
		if len(d.nodes) >= sparkplugNodesMax {
			return &Error{Reason: fmt.Sprintf("more than %d edge nodes", sparkplugNodesMax), Offset: -1}
		}
		n = newSparkplugNode(nodeKey(t))
	}
	birth := t.kind == "NBIRTH" || t.kind == "DBIRTH"
	var certificate *sparkplugBirth
	if birth {
		var err error
		if certificate, err = d.certificate(n); err != nil {
			return err
		}
	}
	d.nodes[n.key] = n
	d.touch(n)
	sound := true
	if t.kind == "NBIRTH" {
		d.reborn(n)
	} else {
		sound = n.born && uint8(d.message.seq) == n.next
	}
	n.next = uint8(d.message.seq) + 1
	if birth {
		d.bear(n, t.device, certificate)
	}
	sound = d.resolve(n) && sound
	switch {
	case t.kind == "DDEATH":
		d.bury(n, t.device)
	case !birth && n.tables[t.device] == nil:
		sound = false
	}
	if !sound && n.hole == 0 {
		n.hole = pos
	}
	d.stale = n.hole != 0 || t.kind == "DDEATH"
	switch {
	case n.hole != 0:
		d.wish = Wish{Kind: WishRebirth, Group: t.group, Edge: t.edge, Since: n.hole}
	case t.kind == "NBIRTH":
		d.wish = Wish{Kind: WishGranted, Group: t.group, Edge: t.edge}
	}
	return nil
}

// reborn begins a session: whatever was known of the node is void.
func (d *Sparkplug) reborn(n *sparkplugNode) {
	for device := range n.tables {
		d.bury(n, device)
	}
	n.born, n.hole = true, 0
	n.bdSeq, n.hasBd = d.bdSeq()
}

// bdSeq is the metric of that name.
func (d *Sparkplug) bdSeq() (seq uint64, has bool) {
	for i := range d.message.metrics {
		if m := &d.message.metrics[i]; m.name == bdSeqMetric && !m.null && (m.field == valueLong || m.field == valueInt) {
			return m.number, true
		}
	}
	return 0, false
}

// die takes a death certificate: that of an earlier session, which the broker may send late, changes nothing.
func (d *Sparkplug) die(n *sparkplugNode) {
	d.resolve(n)
	d.stale = true
	if n == nil {
		return
	}
	if seq, has := d.bdSeq(); has && n.hasBd && seq != n.bdSeq {
		d.stale = n.hole != 0
		return
	}
	d.touch(n)
	for device := range n.tables {
		d.bury(n, device)
	}
	n.dead = true
	delete(d.nodes, n.key)
	d.wish = Wish{Kind: WishGranted, Group: d.topic.group, Edge: d.topic.edge}
}

// certificate makes the table of a birth.
func (d *Sparkplug) certificate(n *sparkplugNode) (*sparkplugBirth, error) {
	metrics := d.message.metrics
	free := d.free(n)
	if free < len(metrics)+1 {
		return nil, &Error{Reason: fmt.Sprintf("the birth certificates hold more than %d metrics", sparkplugMetricsMax), Offset: -1}
	}
	b := newSparkplugBirth(len(metrics))
	for i := range metrics {
		m := &metrics[i]
		if !m.hasName {
			return nil, &Error{Reason: "a metric of a birth certificate has no name", Offset: -1}
		}
		// The name outlives the payload: it is copied.
		b.add(bornMetric{name: string([]byte(m.name)), alias: m.alias, hasAlias: m.hasAlias, typ: sparkplugType(m.datatype)})
	}
	return b, nil
}

// free is how many metrics a certificate of the opened message may hold once those that it replaces are gone.
func (d *Sparkplug) free(n *sparkplugNode) int {
	free := sparkplugMetricsMax - d.metrics
	for device, b := range n.tables {
		if d.topic.kind == "NBIRTH" || device == d.topic.device {
			free += len(b.metrics) + 1
		}
	}
	return free
}

func newSparkplugBirth(metrics int) *sparkplugBirth {
	return &sparkplugBirth{
		metrics: make([]bornMetric, 0, metrics), byName: make(map[string]*bornMetric, metrics), byAlias: map[uint64]*bornMetric{},
	}
}

// add takes a metric; of several with one name or alias the last counts.
func (b *sparkplugBirth) add(m bornMetric) {
	b.metrics = append(b.metrics, m) // never grows beyond its capacity: pointers into it stay
	last := &b.metrics[len(b.metrics)-1]
	b.byName[m.name] = last
	if m.hasAlias {
		b.byAlias[m.alias] = last
	}
}

func (d *Sparkplug) bear(n *sparkplugNode, device string, b *sparkplugBirth) {
	d.bury(n, device)
	n.tables[device] = b
	n.birthed[device] = true
	d.metrics += len(b.metrics) + 1
}

func (d *Sparkplug) bury(n *sparkplugNode, device string) {
	b := n.tables[device]
	if b == nil {
		return
	}
	d.metrics -= len(b.metrics) + 1
	delete(n.tables, device)
	n.birthed[device] = true
}

// resolve names the metrics of the opened message and finds their types; false: one of them is not known, by its alias or without a type.
func (d *Sparkplug) resolve(n *sparkplugNode) bool {
	all := true
	d.named = d.named[:0]
	for i := range d.message.metrics {
		m := namedMetric{sparkplugMetric: &d.message.metrics[i]}
		m.known, m.typ = m.hasName, sparkplugType(m.datatype)
		if born := n.find(d.topic.device, m.sparkplugMetric); born != nil {
			m.known, m.name = true, born.name
			if m.typ == typeUnknown {
				m.typ = born.typ
			}
		}
		if !m.known || m.typ == typeUnknown && !m.null {
			all = false
		}
		d.named = append(d.named, m)
	}
	return all
}

// find gives what the birth certificates say of a metric; nil: nothing.
func (n *sparkplugNode) find(device string, m *sparkplugMetric) *bornMetric {
	if n == nil {
		return nil
	}
	b := n.tables[device]
	switch {
	case b == nil:
		return nil
	case m.hasName:
		return b.byName[m.name]
	case m.hasAlias:
		return b.byAlias[m.alias]
	}
	return nil
}
