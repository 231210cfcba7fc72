package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline/topic"
)

// LevelCapture is a {name} in a topic: the level of the topic, counted from 0, goes into the field Name.
type LevelCapture struct {
	Name   string
	Level  int
	Offset int // of "{" in the text
}

// TopicError is what is wrong with a topic, and where in its text.
type TopicError struct {
	Offset int
	Msg    string
}

func (e *TopicError) Error() string { return e.Msg }

// ParseTopic reads a topic as written in the config: an MQTT filter in which a level may be {name}, which subscribes to +
// and extracts.
func ParseTopic(text string) (filter string, captures []LevelCapture, err error) {
	offset, level := 0, 0
	if rest, err := topic.Unshare(text); err == nil && rest != text {
		offset = len(text) - len(rest)
	}
	var b strings.Builder
	b.WriteString(text[:offset])
	for part := range strings.SplitSeq(text[offset:], "/") {
		if level > 0 {
			b.WriteByte('/')
		}
		name, captured := strings.CutPrefix(part, "{")
		name, closed := strings.CutSuffix(name, "}")
		switch {
		case captured && closed && !strings.ContainsAny(name, "{}"):
			if reason := CheckFieldName(name); reason != "" {
				return "", nil, &TopicError{offset, fmt.Sprintf("capture %q: %s", part, reason)}
			}
			for _, c := range captures {
				if c.Name == name {
					return "", nil, &TopicError{offset, fmt.Sprintf("capture {%s} stands twice in the topic", name)}
				}
			}
			captures = append(captures, LevelCapture{Name: name, Level: level, Offset: offset})
			b.WriteByte('+')
		case strings.ContainsAny(part, "{}"):
			return "", nil, &TopicError{offset, fmt.Sprintf("level %q: a capture takes a whole level, as in site/{name}/temp", part)}
		default:
			b.WriteString(part)
		}
		offset += len(part) + 1
		level++
	}
	filter = b.String()
	if err := topic.Validate(filter); err != nil {
		return "", nil, &TopicError{0, err.Error()}
	}
	return filter, captures, nil
}

// checkTopic is ParseTopic for a source: nil when the topic is good.
func checkTopic(t Text) (filter string, captures []LevelCapture, problem *Problem) {
	filter, captures, err := ParseTopic(t.Value)
	if err == nil {
		return filter, captures, nil
	}
	at := t.Pos
	if located, ok := err.(*TopicError); ok {
		at = t.At(located.Offset)
	}
	return "", nil, &Problem{Pos: at, Found: fmt.Sprintf("topic %q: %s", t.Value, err), Allowed: "+ and {name} take a whole level, # the last one"}
}
