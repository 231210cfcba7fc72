package central

import "errors"

var (
	// ErrFenced: another device writes for this gateway. Nothing is uploaded or collected any more.
	ErrFenced = errors.New("another device writes for this gateway")
	// ErrDamaged: an object is not what its name or its form says.
	ErrDamaged = errors.New("object is damaged")
	// ErrVersion: a newer weir wrote it. It may be whole.
	ErrVersion = errors.New("object of a newer format version")
	// ErrSignature: a manifest is not signed by a key that is trusted.
	ErrSignature = errors.New("signature is not by a key that is trusted")
	// ErrForeign: a manifest is bound to another gateway or pipeline.
	ErrForeign = errors.New("belongs to another gateway or pipeline")
	// ErrEncrypted: a piece is encrypted, and no identity was given that opens it.
	ErrEncrypted = errors.New("piece is encrypted")
	// ErrOld: an upload is older than what is known to have been there.
	ErrOld = errors.New("upload is too old")
	// ErrNothing: the store has no checkpoint of the pipeline that can be read whole.
	ErrNothing = errors.New("no uploaded checkpoint can be fetched")
	// ErrOrder: what was given to be uploaded is out of order.
	ErrOrder = errors.New("entries out of order")
	// ErrBroken: a head's chain is not whole in the store.
	ErrBroken = errors.New("chain is not whole in the store")
)
