package volatiledisk

import "errors"

var (
	// ErrCut comes from every request once the power is cut. A server must not pass it on as an answer before the machine that asked is dead as well.
	ErrCut = errors.New("the power is cut")
	// ErrRange comes when a request reaches outside of the disk.
	ErrRange = errors.New("outside of the disk")
	// ErrUnaligned comes when a write is not of whole sectors.
	ErrUnaligned = errors.New("not in whole sectors")
)
