package signed

import (
	"errors"

	"github.com/weirstream/weir/fleet/strict"
)

// Why a document is refused.
var (
	// ErrForm comes for what is no envelope, or no root document, of this format.
	ErrForm = strict.ErrForm
	// ErrVersion comes for an envelope of a later format: a newer weir can read it.
	ErrVersion = errors.New("envelope of a later format")
	// ErrSize comes for more than BytesMax.
	ErrSize = errors.New("document too large")
	// ErrType comes for a document of another type than the one that was asked for.
	ErrType = errors.New("document of another type")
	// ErrSignature comes for a signature that is wrong, by a key that counts.
	ErrSignature = errors.New("wrong signature")
	// ErrThreshold comes for too few signatures of the role.
	ErrThreshold = errors.New("too few signatures")
	// ErrChain comes for a root that is not the next one: another fleet, a number left out, one that went back.
	ErrChain = errors.New("not the next root")
	// ErrKey comes for a key, or a file of one, that is not to be used.
	ErrKey = errors.New("unusable key")
)
