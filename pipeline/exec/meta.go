package exec

import (
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// topicText is a topic as text and split at its slashes.
type topicText struct {
	text   string
	levels []string
}

// fillMeta sets the slots that do not come from the payload: levels captured from the topic and $fields.
func (s *decodeLane) fillMeta(e *pipeline.Entry, slots []pipeline.Value) {
	if len(s.plan.Captures) == 0 && len(s.plan.Meta) == 0 {
		return
	}
	t := s.topic(e.Topic)
	for _, c := range s.plan.Captures {
		if c.Level < len(t.levels) {
			slots[c.Slot] = pipeline.StringValue(t.levels[c.Level])
		}
	}
	for _, m := range s.plan.Meta {
		slots[m.Slot] = metaValue(m.Name, t.text, e)
	}
}

func metaValue(name, topic string, e *pipeline.Entry) pipeline.Value {
	switch name {
	case plan.MetaTopic:
		return pipeline.StringValue(topic)
	case plan.MetaReceived:
		return pipeline.IntValue(e.Stamp.Wall)
	case plan.MetaQoS:
		return pipeline.IntValue(int64(e.QoS))
	case plan.MetaRetain:
		return pipeline.BoolValue(e.Retain)
	case plan.MetaSource:
		return pipeline.StringValue(e.Source)
	case plan.MetaPosition:
		return pipeline.UintValue(uint64(e.Pos))
	}
	return pipeline.Value{}
}

// topic splits a topic, through a bounded cache: gateways see the same few topics again and again.
func (s *decodeLane) topic(topic []byte) topicText {
	if t, ok := s.topics[string(topic)]; ok {
		return t
	}
	if len(s.topics) >= topicCacheMax {
		clear(s.topics)
	}
	text := string(topic)
	t := topicText{text: text, levels: strings.Split(text, "/")}
	s.topics[text] = t
	return t
}
