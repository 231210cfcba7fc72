package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/weirstream/weir/pipeline"
)

// Bits of an entry's second byte (FORMAT.md).
const (
	bitsQoS   = 0x03
	bitRetain = 0x04
	bitDup    = 0x08
	bitsKnown = bitsQoS | bitRetain | bitDup

	fixedBytes = 4 // kind, bits, packet id
)

var (
	// ErrEntry: an intact record that is no entry; the journal was written by something else.
	ErrEntry = errors.New("journal entry is malformed")
	// ErrKind: an entry of a newer agent.
	ErrKind = errors.New("journal entry kind is not known to this agent")
)

// appendHead appends everything of the entry but the payload.
func appendHead(dst []byte, e *pipeline.Entry) []byte {
	set := e.QoS & bitsQoS
	if e.Retain {
		set |= bitRetain
	}
	if e.Dup {
		set |= bitDup
	}
	dst = append(dst, byte(e.Kind), set)
	dst = binary.LittleEndian.AppendUint16(dst, e.PacketID)
	dst = binary.AppendUvarint(dst, uint64(len(e.Session)))
	dst = append(dst, e.Session...)
	dst = binary.AppendUvarint(dst, uint64(len(e.Source)))
	dst = append(dst, e.Source...)
	return binary.AppendUvarint(dst, uint64(len(e.Topic)))
}

// size is the length of an encoded entry.
func size(e *pipeline.Entry) int {
	return fixedBytes + textBytes(len(e.Session)) + textBytes(len(e.Source)) + textBytes(len(e.Topic)) + len(e.Payload)
}

// textBytes is the length of a text of n bytes with its own length before it.
func textBytes(n int) int { return (bits.Len(uint(n)|1)+6)/7 + n }

// decode reads an entry. Topic and Payload alias b; names are interned.
func decode(b []byte, e *pipeline.Entry, names *interner) error {
	if len(b) < fixedBytes {
		return fmt.Errorf("%w: %d bytes", ErrEntry, len(b))
	}
	switch k := pipeline.EntryKind(b[0]); {
	case k > pipeline.EntryAnchor:
		return pipeline.Newer(ErrKind, "kind of a journal entry", uint64(k), uint64(pipeline.EntryAnchor))
	case k < pipeline.EntryMessage:
		return fmt.Errorf("%w: kind %d", ErrEntry, k)
	}
	set := b[1]
	if set&^byte(bitsKnown) != 0 || set&bitsQoS == 3 {
		return fmt.Errorf("%w: bits %#x", ErrEntry, set)
	}
	e.Kind, e.QoS, e.Retain, e.Dup = pipeline.EntryKind(b[0]), set&bitsQoS, set&bitRetain != 0, set&bitDup != 0
	e.PacketID = binary.LittleEndian.Uint16(b[2:])
	var session, source []byte
	rest := b[fixedBytes:]
	for _, f := range [...]*[]byte{&session, &source, &e.Topic} {
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > uint64(len(rest)-w) {
			return fmt.Errorf("%w: a length is beyond its end", ErrEntry)
		}
		end := w + int(n)
		*f, rest = rest[w:end:end], rest[end:]
	}
	e.Session, e.Source, e.Payload = names.text(session, &names.session), names.text(source, &names.source), rest[:len(rest):len(rest)]
	return nil
}

// internerMax bounds what a reader remembers: names come from the config, so that a handful is usual.
const internerMax = 1024

// interner gives the same string for the same bytes without allocating again.
type interner struct {
	known           map[string]string
	session, source string // of the entry before: mostly the same again
}

// text gives b as a string; last is what stood there in the entry before.
func (i *interner) text(b []byte, last *string) string {
	if string(b) != *last {
		*last = i.look(b)
	}
	return *last
}

func (i *interner) look(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := i.known[string(b)]; ok {
		return s
	}
	if i.known == nil || len(i.known) >= internerMax {
		i.known = map[string]string{}
	}
	s := string(b)
	i.known[s] = s
	return s
}
