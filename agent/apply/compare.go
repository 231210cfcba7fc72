package apply

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/agent/config"
)

// Diff is how two configs differ, as far as that can be told from them alone.
type Diff struct {
	Pipelines []Change // that change, come, or go: regions each on its own
	Unchanged []string
	// Brokers and Sources name the sessions and subscriptions that change; "+b" comes, "-b" goes.
	Brokers, Sources []string
	// Refused are changes that need a restart, one sentence each.
	Refused []string
}

// Nothing tells that the two are the same but for what has no effect.
func (d *Diff) Nothing() bool { return len(d.Pipelines)+len(d.Brokers)+len(d.Sources) == 0 }

// Compare is pure. Places in the file do not count, nor what is only read at a first start.
func Compare(old, new *config.Config) *Diff {
	d := &Diff{}
	for _, s := range []struct {
		name string
		a, b any
	}{
		{"gateway", old.Gateway, new.Gateway}, {"state_dir", old.StateDir, new.StateDir}, {"journal", old.Journal, new.Journal}, {"api", old.API, new.API},
		{"log", old.Log, new.Log}, {"metrics", old.Metrics, new.Metrics}, {"security", old.Security, new.Security},
		{"board", old.Board, new.Board}, {"board_serial", old.BoardSerial, new.BoardSerial}, {"led", old.LED, new.LED}, {"central", old.Central, new.Central},
		{"flash", old.Flash, new.Flash}, {"fleet", old.Fleet, new.Fleet}, {"upgrade", old.Upgrade, new.Upgrade},
	} {
		if canon(s.a) != canon(s.b) {
			d.refuse("%s changed: needs a restart", s.name)
		}
	}
	d.brokers(old, new)
	d.sources(old, new)
	d.pipelines(old, new)
	return d
}

func (d *Diff) refuse(format string, args ...any) {
	d.Refused = append(d.Refused, fmt.Sprintf(format, args...))
}

func (d *Diff) brokers(old, new *config.Config) {
	for _, b := range new.Brokers {
		o := old.Broker(b.Name.Value)
		switch {
		case o == nil:
			d.Brokers = append(d.Brokers, "+"+b.Name.Value)
		case o.URL.Value != b.URL.Value || o.ClientID.Value != b.ClientID.Value:
			d.refuse("broker %s has another url or client_id, which is another session, and what the broker holds for the old one would stay there: give it a new name, or restart", b.Name.Value)
		case canon(o) != canon(b):
			d.Brokers = append(d.Brokers, b.Name.Value)
		}
	}
	for _, o := range old.Brokers {
		if new.Broker(o.Name.Value) == nil {
			d.Brokers = append(d.Brokers, "-"+o.Name.Value)
		}
	}
}

func sourceOf(c *config.Config, name string) *config.Source {
	for _, s := range c.Sources {
		if s.Name.Value == name {
			return s
		}
	}
	return nil
}

// Subscription is what a session needs of a source, apart from decoding.
func Subscription(s *config.Source) string {
	return canon([]any{s.Broker, s.Filter, s.QoS, s.Retained, s.MaxMessageBytes, s.RateMax, s.BytesPerDayMax})
}

// SessionSettings is all that the session of a broker is made of.
func SessionSettings(c *config.Config, b *config.Broker) string {
	text := canon(b)
	for _, s := range c.Sources {
		if s.Broker.Value == b.Name.Value {
			text += s.Name.Value + Subscription(s)
		}
	}
	return text
}

func (d *Diff) sources(old, new *config.Config) {
	for _, s := range new.Sources {
		o := sourceOf(old, s.Name.Value)
		switch {
		case o == nil:
			d.Sources = append(d.Sources, "+"+s.Name.Value)
		case o.Broker.Value != s.Broker.Value || o.Filter != s.Filter:
			d.refuse("source %s has another topic or broker, and what the journal holds of it is of the old one: give it a new name, or restart", s.Name.Value)
		case Subscription(o) != Subscription(s):
			d.Sources = append(d.Sources, s.Name.Value)
		}
	}
	for _, o := range old.Sources {
		if sourceOf(new, o.Name.Value) == nil {
			d.Sources = append(d.Sources, "-"+o.Name.Value)
		}
	}
}

// part is a region, or a pipeline that has none, with the text of all that it depends on.
type part struct {
	name, text string
	failover   string
}

func parts(c *config.Config) (list []part) {
	for _, p := range c.Pipelines {
		for _, r := range p.Regions() {
			list = append(list, part{r.Name.Value, meaning(c, r), p.Restart.Failover})
		}
	}
	return list
}

func (d *Diff) pipelines(old, new *config.Config) {
	before, after := parts(old), parts(new)
	find := func(list []part, name string) int {
		return slices.IndexFunc(list, func(p part) bool { return p.name == name })
	}
	for _, p := range new.Pipelines {
		if o := old.Pipeline(p.Name.Value); o != nil && o.Restart.Failover != p.Restart.Failover {
			d.refuse("pipeline %s has another restart.failover: its state does not fit; give it a new name", p.Name.Value)
		}
	}
	for _, p := range after {
		switch i := find(before, p.name); {
		case i < 0:
			d.Pipelines = append(d.Pipelines, Change{Name: p.name, Kind: Added})
		case before[i].text != p.text:
			d.Pipelines = append(d.Pipelines, Change{Name: p.name, Kind: Changed})
		default:
			d.Unchanged = append(d.Unchanged, p.name)
		}
	}
	for _, p := range before {
		if find(after, p.name) < 0 {
			d.Pipelines = append(d.Pipelines, Change{Name: p.name, Kind: Removed})
		}
	}
}

// SameLink tells whether two links have the same settings.
func SameLink(a, b *config.Link) bool { return canon(a) == canon(b) }

// OtherSinks names the sinks of a pipeline that are new or have other settings than before; old is nil for a new pipeline.
func OtherSinks(old, new *config.Pipeline) map[string]bool {
	before := map[string]string{}
	if old != nil {
		for _, s := range old.Sinks {
			before[s.UID.Value] = canon(s)
		}
	}
	other := map[string]bool{}
	for _, s := range new.Sinks {
		if before[s.UID.Value] != canon(s) {
			other[s.UID.Value] = true
		}
	}
	return other
}

// meaning is a pipeline with all that acts on it from outside: the plan (sources are part of it), links, brokers that it publishes to.
func meaning(c *config.Config, p *config.Pipeline) string {
	own := *p
	own.Start, own.StartFile, own.Graph, own.Whole, own.Spec.Sources = "", "", nil, nil, nil
	b := &strings.Builder{}
	fmt.Fprintf(b, "%x %s", p.Graph.Hash, canon(own))
	for _, s := range p.Sinks {
		for _, l := range c.Links {
			if l.Name.Value == s.Link.Value {
				b.WriteString(canon(l))
			}
		}
		if s.MQTT != nil {
			b.WriteString(canon(c.Broker(s.MQTT.Broker.Value)))
		}
	}
	return b.String()
}
