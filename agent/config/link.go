package config

import (
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/codec/zones"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/uplink"
)

// Link is a way upstream that sinks share.
type Link struct {
	Name      plan.Text
	Pos       plan.Pos
	Bandwidth int64 // bytes per second; 0: no limit
	Windows   []plan.Text
	Zone      plan.Text
	AnyTime   string // high, normal: this priority and above is sent outside of the windows; none

	Parsed   []uplink.Window // of Windows
	Location *time.Location  // of Zone
}

// anyTimeNone says that all sinks wait for the windows.
const anyTimeNone = "none"

// AnyTimePriority is the least priority that is sent outside of the windows.
func (l *Link) AnyTimePriority() uplink.Priority {
	if l.AnyTime == anyTimeNone {
		return uplink.NoPriority
	}
	p, err := uplink.ParsePriority(l.AnyTime)
	if err != nil {
		panic("BUG: any_time was not checked: " + err.Error())
	}
	return p
}

var linkWindowKind = textKind{what: "a window such as 22:00-06:00", pattern: "^[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$",
	allowed: "a begin and an end such as 22:00-06:00, the end at most 24:00", check: func(text string) string {
		if _, err := uplink.ParseWindow(text); err != nil {
			return "this is no window"
		}
		return ""
	}}

var linkObject = &object[Link]{place: func(l *Link, at plan.Pos) { l.Pos = at }, section: section{what: "a link", list: []*setting{
	set("bandwidth", at(func(l *Link) *int64 { return &l.Bandwidth }).is(sizeKind{least: 64, most: 1 << 32}),
		"Most payload bytes per second of all its sinks together, in bursts of a quarter of a second. Left out: no limit."),
	set("windows", at(func(l *Link) *[]plan.Text { return &l.Windows }).is(textsKind{linkWindowKind}),
		"Times of day at which it is used; past midnight when the end is before the begin. Left out: always."),
	set("zone", at(func(l *Link) *plan.Text { return &l.Zone }).is(textKind{what: "a zone such as Europe/Berlin"}),
		"Zone of the windows: a name of the time zone database, whose rules weir brings along.", byDefault("UTC")),
	set("any_time", at(func(l *Link) *string { return &l.AnyTime }).is(choiceKind{words: []string{"high", "normal", anyTimeNone}}),
		"Sinks of this priority and above send outside of the windows too.", byDefault(anyTimeNone)),
}}, check: func(r *reader, n *node, l *Link) {
	if l.Bandwidth == 0 && len(l.Windows) == 0 {
		r.problems.Add(n.pos, "", "bandwidth, windows, or both", "the link limits nothing")
	}
	if len(l.Windows) == 0 {
		for _, e := range n.entries {
			if e.key.text == "zone" || e.key.text == "any_time" {
				r.problems.Add(e.key.pos, "", "it belongs to windows", "%s without windows", e.key.text)
			}
		}
	}
}}

// checkLinks resolves zones and references.
func (c *Config) checkLinks(problems *plan.Problems) {
	var names []string
	used := map[string]bool{}
	for _, l := range c.Links {
		names = append(names, l.Name.Value)
		l.Parsed = nil
		for _, text := range l.Windows {
			if w, err := uplink.ParseWindow(text.Value); err == nil { // else it is said
				l.Parsed = append(l.Parsed, w)
			}
		}
		if len(l.Windows) == 0 {
			continue
		}
		var err error
		if l.Location, err = zones.Load(l.Zone.Value); err != nil {
			problems.Add(l.Zone.Pos, suggest.Nearest(l.Zone.Value, zones.Names()), "a name of the time zone database such as Europe/Berlin or UTC", "the zone %s is unknown", quote(l.Zone.Value))
		}
	}
	use := func(at plan.Text) {
		if at.Value == "" {
			return
		}
		used[at.Value] = true
		if c.Link(at.Value) == nil {
			allowed := "links are " + strings.Join(names, ", ")
			if len(names) == 0 {
				allowed = "the section links defines it"
			}
			problems.Add(at.Pos, suggest.Nearest(at.Value, names), allowed, "link %s is not defined", quote(at.Value))
		}
	}
	for _, p := range c.Pipelines {
		for _, s := range p.Sinks {
			use(s.Link)
		}
	}
	use(c.Central.Link)
	for _, l := range c.Links {
		if !used[l.Name.Value] {
			c.Warnings.Add(l.Name.Pos, "", "a sink, or central, names its link in link", "nobody uses link %s", quote(l.Name.Value))
		}
	}
}

// Link finds a link by its name, nil when there is none.
func (c *Config) Link(name string) *Link {
	for _, l := range c.Links {
		if l.Name.Value == name {
			return l
		}
	}
	return nil
}

// String tells what the link does, on a line.
func (l *Link) String() string {
	text := "link " + l.Name.Value
	if l.Bandwidth > 0 {
		text += ": " + FormatSize(l.Bandwidth) + "/s"
	}
	if len(l.Windows) > 0 {
		var all []string
		for _, w := range l.Parsed {
			all = append(all, w.String())
		}
		text += "; open " + strings.Join(all, ", ") + " " + l.Zone.Value
		if l.AnyTime != anyTimeNone {
			text += ", priority " + l.AnyTime + " at any time"
		}
	}
	return text
}
