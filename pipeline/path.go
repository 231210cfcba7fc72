package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// PathElem is one step into a document: a member name, or an array index when Name is "".
type PathElem struct {
	Name  string
	Index int
}

// Path names a field inside a decoded message: temp, motor.rpm, values[0].id. Meta fields begin with "$": $topic, $time,
// $received, $qos, $retain, $source, $position, $payload.
type Path []PathElem

// String is the inverse of ParsePath.
func (p Path) String() string {
	var b strings.Builder
	for i, e := range p {
		switch {
		case e.Name == "":
			fmt.Fprintf(&b, "[%d]", e.Index)
		case i > 0:
			b.WriteString("." + e.Name)
		default:
			b.WriteString(e.Name)
		}
	}
	return b.String()
}

// ParsePath reads the text form. Names consist of anything but ".", "[" and "]".
func ParsePath(s string) (Path, error) {
	var p Path
	rest := s
	for rest != "" {
		if rest[0] == '[' {
			end := strings.IndexByte(rest, ']')
			if end < 0 || len(p) == 0 {
				return nil, fmt.Errorf("path %q: bad index", s)
			}
			i, err := strconv.Atoi(rest[1:end])
			if err != nil || i < 0 {
				return nil, fmt.Errorf("path %q: index %q is not a number", s, rest[1:end])
			}
			p = append(p, PathElem{Index: i})
			rest = rest[end+1:]
			continue
		}
		if len(p) > 0 {
			if rest[0] != '.' {
				return nil, fmt.Errorf("path %q: want \".\" or \"[\" before %q", s, rest)
			}
			rest = rest[1:]
		}
		end := strings.IndexAny(rest, ".[]")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("path %q: empty name", s)
		}
		p = append(p, PathElem{Name: rest[:end]})
		rest = rest[end:]
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("path is empty")
	}
	return p, nil
}
