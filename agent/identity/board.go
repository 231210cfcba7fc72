// Package identity keeps who this agent is: the board that it runs on, its incarnation, and whether another device has taken its place (RULES 25,
// 27, 28, 29). All of it is durable in state_dir. Whoever calls holds the lock of state_dir.
package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Board names the board that the agent runs on, by each means that there is, the surest first: KIND:VALUE. What is not for everybody's eyes (a machine id,
// a serial) goes through a keyed hash and cannot be got back from it.
type Board []string

// boardSources are where a board's names are read, the surest first. An SD card that is put into another board takes its machine id along: it counts only
// where nothing else can be read on both.
var boardSources = []struct{ kind, path string }{
	{"devicetree", "/sys/firmware/devicetree/base/serial-number"},
	{"dmi", "/sys/class/dmi/id/product_uuid"}, // root only
	{"machine", "/etc/machine-id"},
}

// kindSet is a name that the config gives.
const kindSet = "set"

// ReadBoard gives the board's names. set is the config's, "" for none: then nothing else is asked. What cannot be read is left out.
func ReadBoard(set string, read func(path string) ([]byte, error)) (b Board) {
	if set != "" {
		return Board{kindSet + ":" + set}
	}
	for _, s := range boardSources {
		text, err := read(s.path)
		if value := strings.Trim(string(text), " \t\r\n\x00"); err == nil && plausible(value) {
			mac := hmac.New(sha256.New, []byte(value))
			mac.Write([]byte("weir board " + s.kind))
			b = append(b, s.kind+":"+hex.EncodeToString(mac.Sum(nil))[:16])
		}
	}
	return b
}

// plausible leaves out what firmware says that has no serial: zeros, ones, "unset", a text in place of a number.
func plausible(value string) bool {
	lower := strings.ToLower(value)
	return len(value) >= 8 && strings.ContainsAny(lower, "0123456789") && strings.Trim(lower, "0-") != "" && strings.Trim(lower, "f-") != "" && lower != "03000200-0400-0500-0006-000700080009"
}

// Verdict tells whether two readings are of one board.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota // nothing could be read on both occasions
	Same
	Other
)

// Compare is pure: the surest kind that both have decides.
func (b Board) Compare(o Board) Verdict {
	for _, x := range b {
		kind, _, _ := strings.Cut(x, ":")
		for _, y := range o {
			if k, _, _ := strings.Cut(y, ":"); k != kind {
				continue
			}
			if x == y {
				return Same
			}
			return Other
		}
	}
	return Unknown
}
