package exec

import "errors"

// ErrStopped is returned to callers that wait on a pipeline which has ended.
var ErrStopped = errors.New("pipeline has stopped")

// ErrState is returned when restored state does not fit the plan; the message names the step.
var ErrState = errors.New("restored state does not fit the plan")
