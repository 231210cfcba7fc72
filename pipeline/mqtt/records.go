package mqtt

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// FORMAT.md draws what is encoded here. Every payload begins with recordVersion.
const recordVersion = 1

// checkVersion tells a record of a newer build, which is whole, from bytes that are none.
func checkVersion(b []byte) error {
	switch {
	case len(b) == 0 || b[0] < recordVersion:
		return ErrRecord
	case b[0] > recordVersion:
		return pipeline.Newer(ErrRecord, "record of an MQTT session in the journal", uint64(b[0]), recordVersion)
	}
	return nil
}

// subscription is one granted filter.
type subscription struct {
	filter string
	qos    uint8
}

// encodeSubscribed is the payload of an EntrySubscribed: the filter set in the order of the config.
func encodeSubscribed(subs []subscription) []byte {
	b := []byte{recordVersion}
	b = binary.AppendUvarint(b, uint64(len(subs)))
	for _, s := range subs {
		b = append(b, s.qos)
		b = binary.AppendUvarint(b, uint64(len(s.filter)))
		b = append(b, s.filter...)
	}
	return b
}

func decodeSubscribed(b []byte) ([]subscription, error) {
	bad := fmt.Errorf("decode granted filters: %w", ErrRecord)
	if err := checkVersion(b); err != nil {
		return nil, fmt.Errorf("decode granted filters: %w", err)
	}
	n, w := binary.Uvarint(b[1:])
	if w <= 0 || n > uint64(len(b)) {
		return nil, bad
	}
	b = b[1+w:]
	subs := make([]subscription, 0, n)
	for range n {
		if len(b) < 2 {
			return nil, bad
		}
		qos := b[0]
		size, w := binary.Uvarint(b[1:])
		if w <= 0 || size > uint64(len(b)-1-w) {
			return nil, bad
		}
		b = b[1+w:]
		subs = append(subs, subscription{filter: string(b[:size]), qos: qos})
		b = b[size:]
	}
	if len(b) != 0 {
		return nil, bad
	}
	return subs, nil
}

// encodeForget is the payload of an EntryForget: the ids that stay. All others are void.
func encodeForget(keep []uint16) []byte {
	b := make([]byte, 1, 1+2*len(keep))
	b[0] = recordVersion
	for _, id := range keep {
		b = binary.BigEndian.AppendUint16(b, id)
	}
	return b
}

func decodeForget(b []byte) (keep []uint16, err error) {
	if err := checkVersion(b); err != nil || len(b)%2 != 1 {
		return nil, fmt.Errorf("decode kept packet ids: %w", cmp.Or(err, ErrRecord))
	}
	for b = b[1:]; len(b) > 0; b = b[2:] {
		keep = append(keep, binary.BigEndian.Uint16(b))
	}
	return keep, nil
}

// carried is one dedup entry in an EntryCarry.
type carried struct {
	id   uint16
	mark uint8 // QoS, markReleased
	hash uint64
	age  int64
}

const (
	carriedBytes = 2 + 1 + 8 + 4
	// carriedMax is the number of entries in one EntryCarry: 15 KiB, a few pages.
	carriedMax = 1024
	// ageMax is what the age's four bytes hold; an unreleased QoS 2 entry may be older, and nothing asks how much.
	ageMax = 1<<32 - 1
)

func appendCarried(b []byte, c carried) []byte {
	if len(b) == 0 {
		b = append(b, recordVersion)
	}
	b = binary.BigEndian.AppendUint16(b, c.id)
	b = append(b, c.mark)
	b = binary.BigEndian.AppendUint64(b, c.hash)
	return binary.BigEndian.AppendUint32(b, uint32(min(max(c.age, 0), ageMax)))
}

func decodeCarried(b []byte, f func(carried)) error {
	if err := checkVersion(b); err != nil || (len(b)-1)%carriedBytes != 0 {
		return fmt.Errorf("decode carried entries: %w", cmp.Or(err, ErrRecord))
	}
	for b = b[1:]; len(b) > 0; b = b[carriedBytes:] {
		f(carried{
			id: binary.BigEndian.Uint16(b), mark: b[2],
			hash: binary.BigEndian.Uint64(b[3:]), age: int64(binary.BigEndian.Uint32(b[11:])),
		})
	}
	return nil
}

// Reason says why a message was journaled as a stub.
type Reason uint8

const (
	// ReasonTooLarge: the payload is longer than max_message.
	ReasonTooLarge Reason = 1
	// ReasonTopic: the topic is empty, no UTF-8, or contains U+0000 or a wildcard.
	ReasonTopic Reason = 2
	// ReasonQuota: the source's bytes per day are used up.
	ReasonQuota Reason = 3
)

func (r Reason) String() string {
	switch r {
	case ReasonTooLarge:
		return "message too large"
	case ReasonTopic:
		return "ill-formed topic"
	case ReasonQuota:
		return "bytes per day used up"
	}
	return "unknown reason"
}

// stubHeadMax is how much of an oversize payload a stub keeps.
const stubHeadMax = 1024

// Stub is the decoded payload of an EntryStub.
type Stub struct {
	Reason Reason
	Length uint64   // of the payload, bytes
	SHA256 [32]byte // of the whole payload
	Hash   uint64   // of topic and payload, as the dedup table keys it
	Head   []byte   // first 1 KiB of the payload; all of it when only the topic is at fault
}

const stubFixedBytes = 1 + 1 + 8 + 32 + 8

// appendStub adds the payload of an EntryStub to b.
func appendStub(b []byte, s *Stub) []byte {
	b = append(b, recordVersion, byte(s.Reason))
	b = binary.BigEndian.AppendUint64(b, s.Length)
	b = append(b, s.SHA256[:]...)
	b = binary.BigEndian.AppendUint64(b, s.Hash)
	return append(b, s.Head...)
}

// ParseStub decodes the payload of an EntryStub. Head aliases payload. Errors wrap ErrRecord.
func ParseStub(payload []byte) (Stub, error) {
	if err := checkVersion(payload); err != nil || len(payload) < stubFixedBytes {
		return Stub{}, fmt.Errorf("decode stub of %d bytes: %w", len(payload), cmp.Or(err, ErrRecord))
	}
	s := Stub{Reason: Reason(payload[1]), Length: binary.BigEndian.Uint64(payload[2:])}
	copy(s.SHA256[:], payload[10:42])
	s.Hash = binary.BigEndian.Uint64(payload[42:])
	s.Head = payload[stubFixedBytes:]
	return s, nil
}
