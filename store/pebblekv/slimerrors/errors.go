// Package errors stands in for github.com/cockroachdb/errors, of which Pebble uses little: go.mod replaces that module by this one. The
// original brings a crash reporter, two protobuf runtimes and language tables, 5 MB of an arm64 binary in all, and its use of reflection keeps
// the linker from leaving out what nobody calls. Nothing here is reported anywhere, kept with a stack, or sent over a network.
//
// Messages and the chains for Is and As are those of the original; what it keeps for its reports is dropped.
package errors

import (
	"errors"
	"fmt"
)

// New and its like are the standard library's.
func New(msg string) error                  { return errors.New(msg) }
func Newf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// Errorf is Newf.
func Errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// AssertionFailedf tells of a broken invariant.
func AssertionFailedf(format string, args ...any) error {
	return fmt.Errorf("assertion failed: "+format, args...)
}

func Is(err, target error) bool             { return errors.Is(err, target) }
func As(err error, target any) bool         { return errors.As(err, target) }
func Unwrap(err error) error                { return errors.Unwrap(err) }
func Join(errs ...error) error              { return errors.Join(errs...) }
func Safe(v any) any                        { return v }
func WithStack(err error) error             { return err }
func WithSecondaryError(err, _ error) error { return err }

// WithSafeDetails drops the details: they are for reports.
func WithSafeDetails(err error, _ string, _ ...any) error { return err }

// WithDetailf and WithHintf drop what the original shows with %+v only.
func WithDetailf(err error, _ string, _ ...any) error { return err }
func WithHintf(err error, _ string, _ ...any) error   { return err }

// CombineErrors gives the first error that is not nil, as the original does; the other is kept for Error alone.
func CombineErrors(err, other error) error {
	switch {
	case err == nil:
		return other
	case other == nil:
		return err
	}
	return &wrapped{cause: err, msg: err.Error() + " (and: " + other.Error() + ")"}
}

// wrapped is an error with another message.
type wrapped struct {
	cause error
	msg   string
}

func (w *wrapped) Error() string { return w.msg }
func (w *wrapped) Unwrap() error { return w.cause }

// Wrap puts a message before that of err; nil stays nil.
func Wrap(err error, msg string) error {
	if err == nil {
		return nil
	}
	return &wrapped{cause: err, msg: msg + ": " + err.Error()}
}

// Wrapf is Wrap with a format.
func Wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Wrap(err, fmt.Sprintf(format, args...))
}

// marked is an error that is another one as well.
type marked struct {
	error
	mark error
}

func (m *marked) Unwrap() []error { return []error{m.error, m.mark} }

// Mark makes Is(result, reference) true; the message stays.
func Mark(err, reference error) error {
	if err == nil {
		return nil
	}
	return &marked{err, reference}
}

// UnwrapAll gives the innermost cause.
func UnwrapAll(err error) error {
	for {
		switch e := err.(type) { //nolint:errorlint // it walks the chain
		case interface{ Unwrap() []error }:
			if list := e.Unwrap(); len(list) > 0 {
				err = list[0]
				continue
			}
		case interface{ Unwrap() error }:
			if cause := e.Unwrap(); cause != nil {
				err = cause
				continue
			}
		}
		return err
	}
}
