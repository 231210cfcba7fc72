package expr

import (
	"fmt"

	"github.com/weirstream/weir/pipeline/suggest"
)

// Error says where and why an expression was refused.
type Error struct {
	Offset  int // byte of the source
	Length  int // bytes that are at fault; 0 at the end of the source
	Msg     string
	Suggest string // the nearest right name, "" if none is near
}

func (e *Error) Error() string {
	if e.Suggest != "" {
		return fmt.Sprintf("column %d: %s; did you mean %q?", e.Offset+1, e.Msg, e.Suggest)
	}
	return fmt.Sprintf("column %d: %s", e.Offset+1, e.Msg)
}

func (t token) fail(format string, args ...any) *Error {
	return &Error{Offset: t.at, Length: t.end - t.at, Msg: fmt.Sprintf(format, args...)}
}

func (n *node) fail(format string, args ...any) *Error {
	return &Error{Offset: n.at, Length: n.end - n.at, Msg: fmt.Sprintf(format, args...)}
}

// near adds a suggestion.
func (e *Error) near(name string, candidates []string) *Error {
	e.Suggest = suggest.Nearest(name, candidates)
	return e
}
