package config

import (
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/pipeline/topic"
)

var mqttSinkObject = &object[plan.MQTTTarget]{place: func(m *plan.MQTTTarget, at plan.Pos) { m.Pos = at }, section: section{what: "mqtt", list: []*setting{
	set("broker", at(func(m *plan.MQTTTarget) *plan.Text { return &m.Broker }).is(nameKind("a broker", false)),
		"Name of a broker of the section brokers; it must speak MQTT 5. Its client_id is not used: the sink has a session of its own.", required()),
	set("topic", at(func(m *plan.MQTTTarget) *plan.Text { return &m.Topic }).is(textKind{what: "a topic such as results/{device}"}),
		"Where a result is published: text with {column}, {$gateway}, {$pipeline}, {$sink}. What a value must not bring into a topic is written %XX.", required()),
	set("qos", at(func(m *plan.MQTTTarget) *int { return &m.QoS }).is(intKind{1, 2}),
		"1: repeats reach consumers, who find them by sequence. 2: they do not, while the broker keeps the session; three round trips for each max_inflight.", byDefault("1")),
	set("retain", at(func(m *plan.MQTTTarget) *bool { return &m.Retain }).is(boolKind{}), "Let the broker keep the last result of each topic.", byDefault("false")),
	set("envelope", at(func(m *plan.MQTTTarget) *string { return &m.Envelope }).is(choiceKind{words: []string{"json", "properties"}}),
		"json: the payload is {stream, generation, seq, data}. properties: the bare row, the rest as user properties of MQTT 5.", byDefault("json")),
	set("control", at(func(m *plan.MQTTTarget) *plan.Text { return &m.Control }).is(textKind{what: "a topic such as weir", pattern: "^[^+#$]", allowed: "a topic without + and #", check: checkControl}),
		"Put before GATEWAY/PIPELINE-UUID/UID/progress, gaps and session, which are the sink's own.", byDefault("weir")),
	set("max_inflight", at(func(m *plan.MQTTTarget) *int { return &m.Inflight }).is(intKind{1, 1000}), "Most messages under way at once; the broker may want fewer.", byDefault("100")),
	set("session_expiry", at(func(m *plan.MQTTTarget) *int64 { return &m.SessionExpiryNs }).is(nanoseconds{durationKind{least: time.Minute, most: 365 * 24 * time.Hour}}),
		"QoS 2: how long the broker keeps the session while the agent is away.", byDefault("7d")),
	set("on_not_authorized", at(func(m *plan.MQTTTarget) *string { return &m.OnNotAuthorized }).is(choiceKind{words: []string{"wait", "reject"}}),
		"A topic that the broker does not allow: wait for the right, or make a dead letter.", byDefault("wait")),
	set("batch", at(func(m *plan.MQTTTarget) *plan.MQTTTarget { return m }).is(mqttBatch), "How much lies between two writes of the progress at QoS 1: so much may come twice."),
	set("timeout", at(func(m *plan.MQTTTarget) *int64 { return &m.TimeoutNs }).is(nanoseconds{durationKind{least: time.Second, most: time.Hour}}), "How long a batch may take.", byDefault("30s")),
}}}

var mqttBatch = &object[plan.MQTTTarget]{section: section{what: "batch", list: []*setting{
	set("records", at(func(m *plan.MQTTTarget) *int { return &m.BatchRecords }).is(intKind{1, 100000}), "Most results of a batch.", byDefault("500")),
	set("bytes", at(func(m *plan.MQTTTarget) *int64 { return &m.BatchBytes }).is(sizeKind{least: 1 << 10, most: 64 << 20}), "Most bytes of a batch.", byDefault("256KiB")),
}}}

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
