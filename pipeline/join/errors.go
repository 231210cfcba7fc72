package join

import "errors"

// ErrState comes from Restored when a table holds bytes that this version did not write.
var ErrState = errors.New("state is not readable")

// ErrConfig comes from the Validate methods; the message names the field and the accepted range.
var ErrConfig = errors.New("bad join config")

// ErrTable comes from Parse when a lookup's file is not usable; it is a *TableError with a place in the file.
var ErrTable = errors.New("bad lookup file")

// The reasons of dead letters.
const (
	reasonExpression = "expression" // a column of the joined row failed
	reasonMaxKeys    = "max_keys"   // one row or key too many would have been held
	reasonNoTime     = "no_time"    // the row has no event time, or one too far off
	reasonLookup     = "lookup"     // the table has no such key, and the config wants that refused
)
