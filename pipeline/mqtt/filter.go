package mqtt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// topicBytesMax is the longest filter or topic that MQTT can carry.
const topicBytesMax = 65535

// ValidateFilter checks a topic filter by MQTT 3.1.1 section 4.7, `$share/group/filter` included.
// Errors wrap ErrFilter and say what is wrong.
func ValidateFilter(filter string) error {
	bad := func(reason string) error { return fmt.Errorf("filter %q: %s: %w", filter, reason, ErrFilter) }
	switch {
	case filter == "":
		return bad("is empty")
	case len(filter) > topicBytesMax:
		return bad("is longer than 65535 bytes")
	case !utf8.ValidString(filter):
		return bad("is not UTF-8")
	case strings.ContainsRune(filter, 0):
		return bad("contains U+0000")
	}
	if filter == "$share" || strings.HasPrefix(filter, "$share/") {
		group, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(filter, "$share"), "/"), "/")
		switch {
		case group == "" || strings.ContainsAny(group, "+#"):
			return bad("needs a group name without wildcards behind $share/")
		case !ok || rest == "":
			return bad("has no filter behind $share/" + group)
		}
		return ValidateFilter(rest)
	}
	for level := range strings.SplitSeq(filter, "/") {
		if level != "+" && strings.Contains(level, "+") {
			return bad("+ must stand alone in its level")
		}
		if level != "#" && strings.Contains(level, "#") {
			return bad("# must stand alone in its level")
		}
	}
	if i := strings.IndexByte(filter, '#'); i >= 0 && i != len(filter)-1 {
		return bad("# must be the last level")
	}
	return nil
}

// Shared tells whether filter is a shared subscription.
func Shared(filter string) bool { return strings.HasPrefix(filter, "$share/") }

// Match tells whether a valid filter matches a topic. Topics that begin with $ are not matched by a leading wildcard.
// It allocates nothing.
func Match(filter, topic string) bool {
	if Shared(filter) {
		_, filter, _ = strings.Cut(filter[len("$share/"):], "/")
	}
	if topic != "" && topic[0] == '$' && filter != "" && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		if filter == "#" {
			return true
		}
		fl, frest, fmore := strings.Cut(filter, "/")
		tl, trest, tmore := strings.Cut(topic, "/")
		switch {
		case fl != "+" && fl != tl:
			return false
		case !tmore:
			return !fmore || frest == "#" // a/# matches a
		case !fmore:
			return false
		}
		filter, topic = frest, trest
	}
}

// Overlap tells whether some topic is matched by both of two valid filters.
func Overlap(a, b string) bool {
	levels := func(filter string) []string {
		if Shared(filter) {
			_, filter, _ = strings.Cut(filter[len("$share/"):], "/")
		}
		return strings.Split(filter, "/")
	}
	al, bl := levels(a), levels(b)
	system := func(first string) bool { return strings.HasPrefix(first, "$") }
	wild := func(first string) bool { return first == "+" || first == "#" }
	if system(al[0]) && wild(bl[0]) || system(bl[0]) && wild(al[0]) {
		return false
	}
	for i := 0; ; i++ {
		switch {
		case i < len(al) && al[i] == "#", i < len(bl) && bl[i] == "#":
			return true
		case i == len(al) && i == len(bl):
			return true
		case i == len(al):
			return len(bl) == i+1 && bl[i] == "#"
		case i == len(bl):
			return len(al) == i+1 && al[i] == "#"
		case al[i] != bl[i] && al[i] != "+" && bl[i] != "+":
			return false
		}
	}
}
