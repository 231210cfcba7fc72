package channel

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket"
)

// Why a document is refused, in a word: what metrics and reports count by.
const (
	ReasonSize      = "size"
	ReasonForm      = "form"
	ReasonVersion   = "version"
	ReasonType      = "type"
	ReasonSignature = "signature"
	ReasonThreshold = "threshold"
	ReasonRoot      = "root"
	ReasonOther     = "other-place" // it belongs to another fleet, channel or gateway, or under another name
	ReasonReplay    = "replay"
	ReasonFloor     = "floor"
	ReasonConflict  = "conflict" // two documents, or two commands, of one serial
)

// refusal is why a document does not count.
type refusal struct {
	reason string
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(reason, format string, args ...any) error {
	return &refusal{reason, fmt.Errorf(format, args...)}
}

// reasonOf names why a document was refused; "": the error is of the store, or of this device's disk.
func reasonOf(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.reason
	}
	for _, known := range []struct {
		err    error
		reason string
	}{
		{signed.ErrSize, ReasonSize}, {bucket.ErrTooLarge, ReasonSize}, {signed.ErrVersion, ReasonVersion}, {signed.ErrType, ReasonType}, {signed.ErrSignature, ReasonSignature},
		{signed.ErrThreshold, ReasonThreshold}, {signed.ErrChain, ReasonRoot}, {depot.ErrOther, ReasonOther}, {signed.ErrForm, ReasonForm}, {document.ErrForm, ReasonForm}, {signed.ErrKey, ReasonForm},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	return ""
}

// toldMost bounds how many documents are remembered as told of. One that was forgotten is told again.
const toldMost = 256

// refused counts a document that does not count, and tells of it once. what is where it lies.
func (c *Channel) refused(what string, body []byte, err error) {
	reason := reasonOf(err)
	c.mu.Lock()
	c.count.refused[reason]++
	c.mu.Unlock()
	sha := digestOf(body)
	key := reason + " " + sha
	if len(body) == 0 { // it was not kept, or there is none of that size
		sha, key = "", what+" "+err.Error()
	}
	if c.told[key] && !c.faults.toldAlways {
		return
	}
	if len(c.told) >= toldMost {
		clear(c.told)
	}
	c.told[key] = true
	silent, tell := c.place(what).tell(time.Now())
	if !tell {
		return
	}
	args := []any{"where", what, "reason", reason, "sha256", sha, "error", err}
	if silent > 0 {
		args = append(args, "others_before", silent)
	}
	c.log.Error("fleet document refused", args...)
}

// Whoever may write to the store can put another one there for each look: of one place some are told of in an hour, the others are counted.
const (
	toldEvery   = time.Hour
	toldInEvery = 5
)

// toldOf is what was told of one place.
type toldOf struct {
	since  time.Time
	n      int
	silent int // that were not told of
}

// place is what was told of a place. There are five that are read, and one more for each root.
func (c *Channel) place(what string) *toldOf {
	if len(c.places) >= toldMost {
		clear(c.places)
	}
	if c.places[what] == nil {
		c.places[what] = &toldOf{}
	}
	return c.places[what]
}

// tell tells whether one more is to be told of, and how many were not since the last.
func (p *toldOf) tell(now time.Time) (silent int, tell bool) {
	if now.Sub(p.since) >= toldEvery {
		p.since, p.n = now, 0
	}
	if p.n++; p.n > toldInEvery {
		p.silent++
		return 0, false
	}
	silent, p.silent = p.silent, 0
	return silent, true
}

// failing notes how something ended, and tells whether that is to be told: what fails in the same way each time is told once.
func (c *Channel) failing(what string, err error) bool {
	if err == nil {
		delete(c.failed, what)
		return false
	}
	same := c.failed[what] == err.Error()
	if len(c.failed) >= toldMost {
		clear(c.failed)
	}
	c.failed[what] = err.Error()
	return !same
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
