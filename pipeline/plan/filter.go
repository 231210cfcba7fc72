package plan

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// topicBytesMax is MQTT's limit for topic names and filters.
const topicBytesMax = 65535

// ValidateFilter tells why an MQTT topic filter is not valid (MQTT 3.1.1 §4.7, MQTT 5 §4.8.2 for $share), nil when it is.
func ValidateFilter(filter string) error {
	switch {
	case filter == "":
		return errors.New("the topic filter is empty")
	case len(filter) > topicBytesMax:
		return fmt.Errorf("the topic filter has %d bytes, MQTT allows %d", len(filter), topicBytesMax)
	case !utf8.ValidString(filter):
		return errors.New("the topic filter is not valid UTF-8")
	case strings.ContainsRune(filter, 0):
		return errors.New("the topic filter holds the character U+0000")
	}
	filter, err := unshare(filter)
	if err != nil {
		return err
	}
	levels := strings.Split(filter, "/")
	for i, level := range levels {
		switch {
		case level == "+" || level == "#" && i == len(levels)-1:
		case level == "#":
			return fmt.Errorf("# stands at level %d, it is only valid as the last level", i+1)
		case strings.ContainsAny(level, "+#"):
			return fmt.Errorf("level %q mixes a wildcard with text, a wildcard takes a whole level", level)
		}
	}
	return nil
}

// unshare takes $share/group/ off.
func unshare(filter string) (string, error) {
	rest, shared := strings.CutPrefix(filter, "$share/")
	if !shared {
		return filter, nil
	}
	group, rest, found := strings.Cut(rest, "/")
	switch {
	case group == "":
		return "", errors.New("the shared subscription has no group, it is $share/GROUP/FILTER")
	case strings.ContainsAny(group, "+#"):
		return "", fmt.Errorf("the group %q of the shared subscription holds a wildcard", group)
	case !found || rest == "":
		return "", errors.New("the shared subscription has no filter, it is $share/GROUP/FILTER")
	}
	return rest, nil
}

// MatchFilter tells whether a topic matches a valid filter. It allocates nothing. A leading wildcard does not match topics
// that begin with $; a trailing /# matches the parent as well.
func MatchFilter(filter string, topic []byte) bool {
	if rest, err := unshare(filter); err == nil {
		filter = rest
	}
	if len(topic) > 0 && topic[0] == '$' && (filter == "" || filter[0] != '$') {
		return false
	}
	t, more := topic, true // more: a level of the topic is left, be it empty
	for {
		level, rest, deeper := strings.Cut(filter, "/")
		if level == "#" {
			return true
		}
		if !more {
			return false
		}
		end := indexByte(t, '/')
		if level != "+" && level != string(t[:end]) {
			return false
		}
		if more = end < len(t); more {
			t = t[end+1:]
		}
		if !deeper {
			return !more
		}
		filter = rest
	}
}

func indexByte(b []byte, c byte) int {
	for i := range b {
		if b[i] == c {
			return i
		}
	}
	return len(b)
}

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
	if rest, err := unshare(text); err == nil && rest != text {
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
	if err := ValidateFilter(filter); err != nil {
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
