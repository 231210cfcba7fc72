// Package oserror tells kinds of errors of the operating system.
package oserror

import (
	"errors"
	"io/fs"
)

// The errors of io/fs.
var (
	ErrInvalid    = fs.ErrInvalid
	ErrPermission = fs.ErrPermission
	ErrExist      = fs.ErrExist
	ErrNotExist   = fs.ErrNotExist
	ErrClosed     = fs.ErrClosed
)

func IsExist(err error) bool      { return errors.Is(err, fs.ErrExist) }
func IsNotExist(err error) bool   { return errors.Is(err, fs.ErrNotExist) }
func IsPermission(err error) bool { return errors.Is(err, fs.ErrPermission) }
