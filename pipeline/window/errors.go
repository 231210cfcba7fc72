package window

import "errors"

// ErrState comes from Restored when a table holds bytes that this version did not write.
var ErrState = errors.New("state is not readable")

// ErrConfig comes from Validate; the message names the field and the accepted range.
var ErrConfig = errors.New("bad window config")

// The reasons of dead letters.
const (
	reasonExpression = "expression" // an aggregate's argument failed or is of the wrong kind
	reasonMaxKeys    = "max_keys"   // the row would have begun one (window, key) too many
	reasonNoTime     = "no_time"    // the row has no event time, or one too far off for a window around it
	reasonOverflow   = "overflow"   // a result does not fit: the row of results is refused
)
