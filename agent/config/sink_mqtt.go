package config

import (
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/pipeline/topic"
)

var mqttSinkObject = &object[plan.MQTTTarget]{what: "mqtt", place: func(m *plan.MQTTTarget, at plan.Pos) { m.Pos = at }, list: []*setting{
	set("broker", nameKind("a broker", false), func(m *plan.MQTTTarget) *plan.Text { return &m.Broker },
		"Name of a broker of the section brokers; it must speak MQTT 5. Its client_id is not used: the sink has a session of its own.", required()),
	set("topic", textKind{what: "a topic such as results/{device}"}, func(m *plan.MQTTTarget) *plan.Text { return &m.Topic },
		"Where a result is published: text with {column}, {$gateway}, {$pipeline}, {$sink}. What a value must not bring into a topic is written %XX.", required()),
	set("qos", intKind{1, 2}, func(m *plan.MQTTTarget) *int { return &m.QoS },
		"1: repeats reach consumers, who find them by sequence. 2: they do not, while the broker keeps the session; three round trips for each max_inflight.", byDefault("1")),
	set("retain", boolKind{}, func(m *plan.MQTTTarget) *bool { return &m.Retain }, "Let the broker keep the last result of each topic.", byDefault("false")),
	set("envelope", choiceKind{words: []string{"json", "properties"}}, func(m *plan.MQTTTarget) *string { return &m.Envelope },
		"json: the payload is {stream, generation, seq, data}. properties: the bare row, the rest as user properties of MQTT 5.", byDefault("json")),
	set("control", textKind{what: "a topic such as weir", pattern: "^[^+#$]", allowed: "a topic without + and #", check: checkControl}, func(m *plan.MQTTTarget) *plan.Text { return &m.Control },
		"Put before GATEWAY/PIPELINE-UUID/UID/progress, gaps and session, which are the sink's own.", byDefault("weir")),
	set("max_inflight", intKind{1, 1000}, func(m *plan.MQTTTarget) *int { return &m.Inflight }, "Most messages under way at once; the broker may want fewer.", byDefault("100")),
	set("session_expiry", nanoseconds{durationKind{least: time.Minute, most: 365 * 24 * time.Hour}}, func(m *plan.MQTTTarget) *int64 { return &m.SessionExpiryNs },
		"QoS 2: how long the broker keeps the session while the agent is away.", byDefault("7d")),
	set("on_not_authorized", choiceKind{words: []string{"wait", "reject"}}, func(m *plan.MQTTTarget) *string { return &m.OnNotAuthorized },
		"A topic that the broker does not allow: wait for the right, or make a dead letter.", byDefault("wait")),
	set("batch", mqttBatch, func(m *plan.MQTTTarget) *plan.MQTTTarget { return m }, "How much lies between two writes of the progress at QoS 1: so much may come twice."),
	set("timeout", nanoseconds{durationKind{least: time.Second, most: time.Hour}}, func(m *plan.MQTTTarget) *int64 { return &m.TimeoutNs }, "How long a batch may take.", byDefault("30s")),
}}

var mqttBatch = &object[plan.MQTTTarget]{what: "batch", list: []*setting{
	set("records", intKind{1, 100000}, func(m *plan.MQTTTarget) *int { return &m.BatchRecords }, "Most results of a batch.", byDefault("500")),
	set("bytes", sizeKind{least: 1 << 10, most: 64 << 20}, func(m *plan.MQTTTarget) *int64 { return &m.BatchBytes }, "Most bytes of a batch.", byDefault("256KiB")),
}}

func checkControl(text string) string {
	if t, err := topic.ParseTemplate(text); err != nil || len(t.Columns) > 0 {
		return "this is no topic"
	}
	return ""
}

// checkMQTT finds the broker, and sources that would read what the sink publishes.
func (c *Config) checkMQTT(s *plan.SinkSpec, problems *plan.Problems) {
	at := s.MQTT.Broker
	if at.Value == "" {
		return
	}
	if c.Broker(at.Value) == nil {
		var names []string
		for _, b := range c.Brokers {
			names = append(names, b.Name.Value)
		}
		if len(names) > 0 {
			problems.Add(at.Pos, suggest.Nearest(at.Value, names), "brokers are "+strings.Join(names, ", "), "broker %s is not defined", quote(at.Value))
		}
		return
	}
	t, err := topic.ParseTemplate(s.MQTT.Topic.Value)
	if err != nil {
		return
	}
	for _, source := range c.Sources {
		if source.Broker.Value == at.Value && source.Filter != "" && topic.Overlap(source.Filter, t.Filter()) {
			c.Warnings.Add(s.MQTT.Topic.Pos, "", "", "sink %s publishes to topics that source %s reads: results may go round for ever", s.UID, source.Name)
		}
	}
}

// Subscribes tells whether a source reads from a broker.
func (c *Config) Subscribes(b *Broker) bool {
	return slices.ContainsFunc(c.Sources, func(s *Source) bool { return s.Broker.Value == b.Name.Value })
}
