package snapshot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

const (
	manifestMagic   = "WSMF"
	manifestVersion = 1
	manifestHeader  = 4 + 2 + 2 + 4 // magic, version, flags, body length
	manifestBytes   = 16 << 20      // refuse more: a manifest is some KiB
)

// AppendManifest appends the encoded manifest (FORMAT.md). The same manifest always gives the same bytes.
func AppendManifest(dst []byte, m *Manifest) []byte {
	start := len(dst)
	dst = append(dst, manifestMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, manifestVersion)
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = append(dst, m.Pipeline[:]...)
	for _, v := range []uint64{m.ID, m.Parent, m.Oldest, uint64(m.Position), m.Generation, uint64(m.Incarnation.Major), uint64(m.Incarnation.Minor)} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = append(dst, m.PlanHash[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.WallMs))
	dst = appendBool(dst, m.Trusted)
	dst = appendBool(dst, m.Idle)
	dst = binary.AppendUvarint(dst, uint64(len(m.Tasks)))
	for _, t := range m.Tasks {
		dst = appendString(dst, t)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Behaviours)))
	for _, b := range m.Behaviours {
		dst = appendString(dst, b.UID)
		dst = binary.AppendUvarint(dst, b.Version)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Tables)))
	for _, t := range m.Tables {
		dst = appendTable(dst, t)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Sinks)))
	for _, s := range m.Sinks {
		dst = appendString(dst, s.UID)
		dst = binary.AppendUvarint(dst, s.Generation)
		dst = binary.AppendUvarint(dst, s.Seq)
		dst = binary.LittleEndian.AppendUint64(dst, s.Chain)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Outbox)))
	for _, r := range m.Outbox {
		dst = appendString(dst, r.UID)
		dst = binary.AppendUvarint(dst, r.Generation)
		dst = binary.AppendUvarint(dst, r.Confirmed)
		dst = binary.AppendUvarint(dst, r.Last)
		dst = binary.LittleEndian.AppendUint64(dst, r.Chain)
	}
	dst = appendBytes(dst, m.Ledger)
	dst = binary.AppendUvarint(dst, m.Base.Serial)
	if m.Base.Serial != 0 {
		dst = binary.AppendUvarint(dst, m.Base.Checkpoint)
		dst = binary.AppendUvarint(dst, m.Base.Entries)
		dst = binary.AppendUvarint(dst, m.Base.Bytes)
		dst = binary.AppendUvarint(dst, m.Base.Unpacked)
		dst = append(dst, m.Base.SHA256[:]...)
	}
	dst = appendFrames(dst, m.Frames)
	binary.LittleEndian.PutUint32(dst[start+8:], uint32(len(dst)-start-manifestHeader))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func appendTable(dst []byte, t TableMeta) []byte {
	dst = appendString(dst, t.UID)
	dst = appendString(dst, t.Spec.Name)
	dst = append(dst, byte(t.Spec.Kind))
	dst = appendString(dst, t.Spec.Type)
	dst = binary.AppendUvarint(dst, uint64(t.Spec.Version))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Spec.TTL))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Spec.MaxKeys))
	return binary.AppendUvarint(dst, t.Since)
}

// appendFrames writes numbers as differences to the frame before, modulo 2^64: neighbours are close, so that 64 deltas
// fit one flash page together with the rest.
func appendFrames(dst []byte, frames []FrameRef) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(frames)))
	var prev FrameRef
	for _, f := range frames {
		dst = binary.AppendUvarint(dst, f.Checkpoint-prev.Checkpoint)
		dst = binary.AppendUvarint(dst, uint64(f.Task))
		dst = binary.AppendUvarint(dst, f.First-(prev.First+uint64(prev.Count)))
		dst = binary.AppendUvarint(dst, uint64(f.Count))
		dst = binary.AppendUvarint(dst, f.Entries)
		dst = binary.AppendUvarint(dst, f.Bytes)
		dst = binary.LittleEndian.AppendUint32(dst, f.CRC)
		prev = f
	}
	return dst
}

// DecodeManifest is the inverse of AppendManifest. It returns ErrMagic, ErrVersion, ErrFlags, ErrChecksum or ErrCorrupt
// (wrapped). Trailing bytes are an error.
func DecodeManifest(b []byte) (*Manifest, error) {
	if len(b) < len(manifestMagic) || string(b[:4]) != manifestMagic {
		return nil, fmt.Errorf("decode manifest: %w", ErrMagic)
	}
	if len(b) < manifestHeader+4 {
		return nil, fmt.Errorf("decode manifest of %d bytes: %w", len(b), ErrCorrupt)
	}
	body := b[:len(b)-4]
	whole := crc32.Checksum(body, castagnoli) == binary.LittleEndian.Uint32(b[len(b)-4:])
	// Every version ends with a checksum over all before it, so that a flipped bit here does not look like a newer agent.
	if v := binary.LittleEndian.Uint16(b[4:]); v > manifestVersion && whole {
		return nil, pipeline.Newer(ErrVersion, "checkpoint manifest", uint64(v), manifestVersion)
	} else if v < manifestVersion && whole {
		return nil, fmt.Errorf("decode manifest version %d: %w", v, ErrCorrupt)
	}
	if f := binary.LittleEndian.Uint16(b[6:]); f != 0 && whole {
		return nil, pipeline.NewerFlags(ErrFlags, "checkpoint manifest", uint64(f))
	}
	if n := uint64(binary.LittleEndian.Uint32(b[8:])); n > manifestBytes || n != uint64(len(b)-manifestHeader-4) {
		return nil, fmt.Errorf("decode manifest of %d bytes, header says %d: %w", len(b), n, ErrCorrupt)
	}
	if !whole {
		return nil, fmt.Errorf("decode manifest: %w", ErrChecksum)
	}
	m, ok := decodeManifestBody(body[manifestHeader:])
	if !ok {
		return nil, fmt.Errorf("decode manifest body: %w", ErrCorrupt)
	}
	return m, nil
}

func decodeManifestBody(b []byte) (*Manifest, bool) {
	c := &cursor{b: b}
	m := &Manifest{}
	copy(m.Pipeline[:], c.take(16))
	m.ID, m.Parent, m.Oldest = c.uvarint(), c.uvarint(), c.uvarint()
	m.Position = pipeline.Position(c.uvarint())
	m.Generation = c.uvarint()
	m.Incarnation = Incarnation{Major: c.uvarint32(), Minor: c.uvarint32()}
	copy(m.PlanHash[:], c.take(32))
	m.WallMs = int64(c.u64())
	m.Trusted, m.Idle = c.bool(), c.bool()
	for range c.count(1) {
		m.Tasks = append(m.Tasks, c.string())
	}
	for range c.count(2) {
		m.Behaviours = append(m.Behaviours, Behaviour{UID: c.string(), Version: c.uvarint()})
	}
	for range c.count(22) {
		m.Tables = append(m.Tables, c.table())
	}
	for range c.count(11) {
		m.Sinks = append(m.Sinks, pipeline.SinkMark{UID: c.string(), Generation: c.uvarint(), Seq: c.uvarint(), Chain: c.u64()})
	}
	for range c.count(12) {
		m.Outbox = append(m.Outbox, OutboxRange{UID: c.string(), Generation: c.uvarint(), Confirmed: c.uvarint(), Last: c.uvarint(), Chain: c.u64()})
	}
	if l := c.bytes(); len(l) > 0 {
		m.Ledger = append([]byte(nil), l...)
	}
	if m.Base.Serial = c.uvarint(); m.Base.Serial != 0 {
		m.Base.Checkpoint, m.Base.Entries, m.Base.Bytes, m.Base.Unpacked = c.uvarint(), c.uvarint(), c.uvarint(), c.uvarint()
		copy(m.Base.SHA256[:], c.take(32))
	}
	m.Frames = c.frames(len(m.Tasks))
	return m, !c.bad && len(c.b) == 0
}

func (c *cursor) table() TableMeta {
	t := TableMeta{UID: c.string()}
	t.Spec.Name = c.string()
	t.Spec.Kind = state.Kind(c.u8())
	t.Spec.Type = c.string()
	v := c.uvarint()
	if v > 1<<16-1 {
		c.fail()
	}
	t.Spec.Version = uint16(v)
	t.Spec.TTL = int64(c.u64())
	t.Spec.MaxKeys = int(int64(c.u64()))
	t.Since = c.uvarint()
	return t
}

func (c *cursor) frames(tasks int) []FrameRef {
	var out []FrameRef
	var prev FrameRef
	for range c.count(10) {
		f := FrameRef{Checkpoint: prev.Checkpoint + c.uvarint()}
		task := c.uvarint()
		f.First = prev.First + uint64(prev.Count) + c.uvarint()
		count := c.uvarint()
		f.Entries, f.Bytes = c.uvarint(), c.uvarint()
		f.CRC = c.u32()
		if task >= uint64(tasks) || count > 1<<31 {
			c.fail()
			return nil
		}
		f.Task, f.Count = uint32(task), uint32(count)
		out = append(out, f)
		prev = f
	}
	return out
}
