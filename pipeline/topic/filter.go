package topic

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrFilter: a filter breaks the rules. Found when the config loads.
var ErrFilter = errors.New("invalid topic filter")

// filterError is an ErrFilter that says what is wrong.
type filterError string

func (e filterError) Error() string { return string(e) }

func (e filterError) Is(target error) bool { return target == ErrFilter }

// Validate tells why a topic filter is not valid, nil when it is. Errors wrap ErrFilter.
func Validate(filter string) error {
	switch {
	case filter == "":
		return filterError("the topic filter is empty")
	case len(filter) > BytesMax:
		return filterError(fmt.Sprintf("the topic filter has %d bytes, MQTT allows %d", len(filter), BytesMax))
	case !utf8.ValidString(filter):
		return filterError("the topic filter is not valid UTF-8")
	case strings.ContainsRune(filter, 0):
		return filterError("the topic filter holds the character U+0000")
	}
	filter, err := Unshare(filter)
	if err != nil {
		return err
	}
	levels := strings.Split(filter, "/")
	for i, level := range levels {
		switch {
		case level == "+" || level == "#" && i == len(levels)-1:
		case level == "#":
			return filterError(fmt.Sprintf("# stands at level %d, it is only valid as the last level", i+1))
		case strings.ContainsAny(level, "+#"):
			return filterError(fmt.Sprintf("level %q mixes a wildcard with text, a wildcard takes a whole level", level))
		}
	}
	return nil
}

// Unshare takes $share/group/ off; a filter without it comes back as it is.
func Unshare(filter string) (string, error) {
	rest, shared := strings.CutPrefix(filter, "$share/")
	if !shared {
		return filter, nil
	}
	group, rest, found := strings.Cut(rest, "/")
	switch {
	case group == "":
		return "", filterError("the shared subscription has no group, it is $share/GROUP/FILTER")
	case strings.ContainsAny(group, "+#"):
		return "", filterError(fmt.Sprintf("the group %q of the shared subscription holds a wildcard", group))
	case !found || rest == "":
		return "", filterError("the shared subscription has no filter, it is $share/GROUP/FILTER")
	}
	return rest, nil
}

// Match tells whether a topic name matches a valid filter. It allocates nothing. A leading wildcard does not match topics
// that begin with $; a trailing /# matches the parent as well.
func Match(filter string, name []byte) bool {
	if rest, err := Unshare(filter); err == nil {
		filter = rest
	}
	if len(name) > 0 && name[0] == '$' && (filter == "" || filter[0] != '$') {
		return false
	}
	t, more := name, true // more: a level of the name is left, be it empty
	for {
		level, rest, deeper := strings.Cut(filter, "/")
		if level == "#" {
			return true
		}
		if !more {
			return false
		}
		end := bytes.IndexByte(t, '/')
		if end < 0 {
			end = len(t)
		}
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

// Shared tells whether filter is a shared subscription.
func Shared(filter string) bool { return strings.HasPrefix(filter, "$share/") }

// Overlap tells whether some topic is matched by both of two valid filters.
func Overlap(a, b string) bool {
	levels := func(filter string) []string {
		if rest, err := Unshare(filter); err == nil {
			filter = rest
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
