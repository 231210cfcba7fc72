package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// serve answers one request of the transmission phase. The error ends the connection.
func (s *session) serve() error {
	if s.r.Buffered() == 0 { // nothing more to answer in the same write
		if err := s.w.Flush(); err != nil {
			return err
		}
	}
	var q request
	if err := binary.Read(s.r, binary.BigEndian, &q); err != nil {
		return err
	}
	if q.Magic != magicRequest {
		return fmt.Errorf("%w: request magic %#x", errProtocol, q.Magic)
	}
	if q.Type == cmdDisconnect {
		return net.ErrClosed
	}
	if q.Type == cmdWrite && q.Bytes > payloadBytesMax {
		return fmt.Errorf("%w: a write of %d bytes", errProtocol, q.Bytes)
	}
	if q.Type == cmdWrite {
		if _, err := io.ReadFull(s.r, s.buffer(q.Bytes)); err != nil {
			return err // a write that never came whole is none
		}
	}
	data, err := s.do(&q)
	if errors.Is(err, volatiledisk.ErrCut) {
		return s.mute()
	}
	s.put(reply{magicReply, numberOf(err), q.Cookie})
	if err == nil {
		s.put(data)
	}
	return nil
}

// mute is a disk without power: it takes what comes, and answers nothing, not even by hanging up, until the machine is gone as well. What was answered
// before the cut still goes out: it was done.
func (s *session) mute() error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, s.r)
	return errors.Join(volatiledisk.ErrCut, err)
}

// do has the disk do it; data is that of a read. An error that the disk does not name is one of the request.
func (s *session) do(q *request) (data []byte, err error) {
	fua := q.Flags&cmdFlagFUA != 0
	if q.Flags&^(cmdFlagFUA|cmdFlagNoHole) != 0 || q.Flags&cmdFlagNoHole != 0 && q.Type != cmdWriteZeroes {
		return nil, fmt.Errorf("%w: request flags %#x", errProtocol, q.Flags)
	}
	if size := uint64(s.disk.Size()); q.Offset > size || uint64(q.Bytes) > size-q.Offset {
		return nil, fmt.Errorf("%w: %d bytes at %d", errProtocol, q.Bytes, q.Offset)
	}
	off := int64(q.Offset)
	switch q.Type {
	case cmdRead:
		if q.Bytes > payloadBytesMax {
			return nil, fmt.Errorf("%w: a read of %d bytes", errProtocol, q.Bytes)
		}
		data = s.buffer(q.Bytes)
		_, err = s.disk.ReadAt(data, off)
	case cmdWrite:
		if fua {
			_, err = s.disk.WriteDurable(s.buffer(q.Bytes), off)
		} else {
			_, err = s.disk.WriteAt(s.buffer(q.Bytes), off)
		}
	case cmdFlush:
		err = s.disk.Flush()
	case cmdTrim, cmdWriteZeroes:
		err = s.zero(off, int64(q.Bytes), q.Type == cmdTrim, fua)
	default:
		err = fmt.Errorf("%w: request type %d", errProtocol, q.Type)
	}
	return data, err
}

// zero of a request with FUA is made of writes with FUA: a flush would make durable what nobody asked for.
func (s *session) zero(off, n int64, trim, fua bool) error {
	if !fua && trim {
		return s.disk.Trim(off, n)
	}
	if !fua {
		return s.disk.Zero(off, n)
	}
	for end := off + n; off < end; {
		chunk := s.buffer(uint32(min(end-off, zeroChunk)))
		clear(chunk)
		if _, err := s.disk.WriteDurable(chunk, off); err != nil {
			return err
		}
		off += int64(len(chunk))
	}
	return nil
}

const zeroChunk = 1 << 20

// buffer has n bytes, those of the last call as far as they go.
func (s *session) buffer(n uint32) []byte {
	if uint32(cap(s.payload)) < n {
		s.payload = make([]byte, n)
	}
	return s.payload[:n]
}

// numberOf an error, as the client is told.
func numberOf(err error) uint32 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errProtocol), errors.Is(err, volatiledisk.ErrRange), errors.Is(err, volatiledisk.ErrUnaligned):
		return errInval
	}
	return errIO
}
