package plan

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/pipeline/topic"
)

// MQTTTarget publishes results to topics of a broker.
type MQTTTarget struct {
	Pos             Pos
	Broker          Text
	Topic           Text // with {column}
	Control         Text
	QoS             int
	Retain          bool
	Envelope        string
	Inflight        int
	SessionExpiryNs int64
	OnNotAuthorized string // wait, reject
	BatchRecords    int
	BatchBytes      int64
	TimeoutNs       int64
}

func (m *MQTTTarget) text() string {
	return "mqtt " + Printable(m.Topic.Value) + " at broker " + Printable(m.Broker.Value)
}

// checkTopic looks for the topic's columns in the rows, and for a source that would read what the sink publishes.
func (c *compiler) checkTopic(s *SinkSpec, cols []Column, whole int) {
	at := s.MQTT.Topic
	if at.Value == "" {
		return
	}
	t, err := topic.ParseTemplate(at.Value)
	if err != nil {
		c.problems.Add(at.Pos, "", "a topic such as results/{device}", "sink %s: %s", s.UID, err)
		return
	}
	var names []string
	for _, col := range cols {
		names = append(names, col.Name)
	}
	for _, name := range t.Columns {
		if name[0] != '$' && whole < 0 && !slices.Contains(names, name) {
			c.problems.Add(at.Pos, suggest.Nearest(name, names), "a column of the rows ("+strings.Join(names, ", ")+") or one of "+strings.Join(topic.TemplateNames, ", "),
				"sink %s: the rows have no %q", s.UID, name)
		}
	}
}
