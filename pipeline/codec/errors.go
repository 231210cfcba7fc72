package codec

import "fmt"

// Error says why a payload was refused. It makes a dead letter, never a restart.
type Error struct {
	Reason string // for a person, with what was found
	Offset int    // byte of the payload at which it was found, -1 when that says nothing
	Field  string // path of the wanted field that is at fault, "" when the payload as a whole is
}

func (e *Error) Error() string {
	switch {
	case e.Field != "" && e.Offset >= 0:
		return fmt.Sprintf("field %s: %s (byte %d)", e.Field, e.Reason, e.Offset)
	case e.Field != "":
		return fmt.Sprintf("field %s: %s", e.Field, e.Reason)
	case e.Offset >= 0:
		return fmt.Sprintf("%s (byte %d)", e.Reason, e.Offset)
	}
	return e.Reason
}
