package ops

import "errors"

// ErrState comes from Restored when a table holds bytes that this version did not write.
var ErrState = errors.New("state is not readable")

// ErrConfig comes from the Validate methods; the message names the field and the accepted range.
var ErrConfig = errors.New("bad operator config")

// The reasons of dead letters.
const (
	reasonExpression = "expression" // an expression failed or gave a value of the wrong kind
	reasonMaxKeys    = "max_keys"   // the row would have begun one key too many
	reasonNoTime     = "no_time"    // the row has no event time and the step needs one
	reasonOverflow   = "overflow"   // a result does not fit its type
	reasonElement    = "element"    // an element of an array is not what was declared
	reasonNoArray    = "no_array"   // a value that is to be flattened is no array
)
