//go:build noage

package central

import "errors"

// EncryptBuilt tells whether this binary can encrypt.
const EncryptBuilt = false

var errNoAge = errors.New("this weir was built without encryption (-tags noage)")

// CheckRecipient accepts what cannot be judged here.
func CheckRecipient(string) error { return nil }

// SealTo refuses.
func SealTo([]string) (Seal, error) { return nil, errNoAge }

// UnsealWith refuses.
func UnsealWith([]byte) (Unseal, error) { return nil, errNoAge }
