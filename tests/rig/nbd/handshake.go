package nbd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

var (
	errProtocol = errors.New("the client does not speak the protocol")
	errAborted  = errors.New("the client went away in the handshake")
)

// session is one connection. Its goroutine owns it.
type session struct {
	disk Disk
	r    *bufio.Reader
	w    *bufio.Writer

	noZeroes bool   // the client wants no padding behind EXPORT_NAME
	payload  []byte // of requests
}

// run speaks until the client goes, breaks the protocol, or the disk has lost its power.
func (s *session) run() error {
	if err := s.greet(); err != nil {
		return err
	}
	for {
		begin, err := s.option()
		if err != nil {
			return err
		}
		if begin {
			break
		}
	}
	for {
		if err := s.serve(); err != nil {
			return err
		}
	}
}

func (s *session) put(fields ...any) {
	for _, f := range fields {
		_ = binary.Write(s.w, binary.BigEndian, f) // bufio keeps the error for Flush
	}
}

func (s *session) greet() error {
	s.put(uint64(magicServer), uint64(magicOption), uint16(flagFixedNewstyle|flagNoZeroes))
	if err := s.w.Flush(); err != nil {
		return err
	}
	var flags uint32
	if err := binary.Read(s.r, binary.BigEndian, &flags); err != nil {
		return err
	}
	if flags&^(flagFixedNewstyle|flagNoZeroes) != 0 || flags&flagFixedNewstyle == 0 {
		return fmt.Errorf("%w: client flags %#x", errProtocol, flags)
	}
	s.noZeroes = flags&flagNoZeroes != 0
	return nil
}

// option answers one option. begin: the transmission phase follows.
func (s *session) option() (begin bool, err error) {
	var h optionHeader
	if err := binary.Read(s.r, binary.BigEndian, &h); err != nil {
		return false, err
	}
	if h.Magic != magicOption {
		return false, fmt.Errorf("%w: option magic %#x", errProtocol, h.Magic)
	}
	if h.Bytes > optionBytesMax {
		if _, err := io.CopyN(io.Discard, s.r, int64(h.Bytes)); err != nil {
			return false, err
		}
		s.answer(h.Option, repErrTooBig)
		return false, s.w.Flush()
	}
	data := make([]byte, h.Bytes)
	if _, err := io.ReadFull(s.r, data); err != nil {
		return false, err
	}
	switch h.Option {
	case optExportName: // has no way to say no
		if len(data) > 0 {
			return false, fmt.Errorf("%w: export %.80q", errProtocol, data)
		}
		s.put(uint64(s.disk.Size()), uint16(abilities))
		if !s.noZeroes {
			s.put([124]byte{})
		}
		begin = true
	case optInfo, optGo:
		begin = s.info(h.Option, data) && h.Option == optGo
	case optList:
		s.list(data)
	case optAbort:
		s.answer(h.Option, repAck)
		return false, errors.Join(errAborted, s.w.Flush())
	default: // structured replies, TLS, contexts: the client goes on without
		s.answer(h.Option, repErrUnsup)
	}
	return begin, s.w.Flush()
}

// answer is a reply to an option, with data of fixed size.
func (s *session) answer(option, kind uint32, data ...any) {
	bytes := 0
	for _, d := range data {
		bytes += binary.Size(d)
	}
	s.put(uint64(magicOpReply), option, kind, uint32(bytes))
	s.put(data...)
}

func (s *session) list(data []byte) {
	if len(data) > 0 {
		s.answer(optList, repErrInvalid)
		return
	}
	s.answer(optList, repServer, uint32(0)) // the default export, whose name is empty
	s.answer(optList, repAck)
}

// info answers INFO and GO, and tells whether the export is there.
func (s *session) info(option uint32, data []byte) bool {
	name, ok := exportName(data)
	switch {
	case !ok:
		s.answer(option, repErrInvalid)
		return false
	case name != "":
		s.answer(option, repErrUnknown)
		return false
	}
	s.answer(option, repInfo, uint16(infoExport), uint64(s.disk.Size()), uint16(abilities))
	s.answer(option, repInfo, uint16(infoBlockSize), uint32(blockBytesMin), uint32(blockBytesBest), uint32(payloadBytesMax))
	s.answer(option, repAck)
	return true
}

// exportName takes the data of INFO and GO apart: a name, and the numbers of the informations that are asked for, which come unasked.
func exportName(data []byte) (name string, ok bool) {
	if len(data) < 4 {
		return "", false
	}
	n := uint64(binary.BigEndian.Uint32(data))
	if rest := uint64(len(data) - 4); rest < 2 || n > rest-2 {
		return "", false
	}
	name, data = string(data[4:4+n]), data[4+n:]
	return name, len(data) == 2+2*int(binary.BigEndian.Uint16(data))
}
