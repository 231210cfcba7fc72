package uplink

import (
	"errors"
	"fmt"
	"time"
)

// Errors of an Endpoint. Any other error is temporary: the same batch is sent again after a back-off.
var (
	// ErrFenced: the upstream knows a higher incarnation (or an equal one of another board). Final.
	ErrFenced = errors.New("fenced: the upstream knows a newer incarnation of this gateway")
	// ErrHole: the batch does not continue the run. Open again and send from there.
	ErrHole = errors.New("batch leaves a hole: the upstream holds less than assumed")
	// ErrRejected: the whole batch was refused for good and no record was named. It is split.
	ErrRejected = errors.New("batch rejected by the upstream")
	// ErrTooLarge: the batch as a whole is too large; it is split, and a single record becomes a dead letter.
	ErrTooLarge = fmt.Errorf("%w: too large", ErrRejected)
	// ErrContended: another sender of this very stream moved its progress under each of a bounded number of tries. Nothing was written. Temporary: the sender's
	// back-off, which is drawn, takes the two out of step. Neither the link nor the batch is at fault, so the batch is not made smaller.
	ErrContended = errors.New("another sender of this stream moves its progress at the same time")
)

// Fenced is ErrFenced with what the upstream tells of who it is open to.
type Fenced struct {
	Where       string // the upstream
	Generation  uint64 // highest that was opened
	Incarnation Incarnation
	Board       string // "" when the upstream does not tell
}

func (f *Fenced) Error() string {
	board := ""
	if f.Board != "" {
		board = " of board " + f.Board
	}
	return fmt.Sprintf("%v: %s is at generation %d, incarnation %s%s", ErrFenced, f.Where, f.Generation, f.Incarnation, board)
}
func (f *Fenced) Unwrap() error { return ErrFenced }

// RetryAfter is a temporary refusal with a time to wait.
type RetryAfter struct {
	Wait time.Duration
	Err  error
}

func (r *RetryAfter) Error() string { return fmt.Sprintf("retry after %s: %v", r.Wait, r.Err) }
func (r *RetryAfter) Unwrap() error { return r.Err }
