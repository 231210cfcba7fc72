// Package join joins errors.
package join

import "errors"

// Join is the standard library's.
func Join(errs ...error) error { return errors.Join(errs...) }
