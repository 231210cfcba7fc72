// Package nbd serves a disk as a network block device, for qemu and for the Linux client: the fixed newstyle handshake and simple replies of the NBD protocol
// (NetworkBlockDevice/nbd, doc/proto.md), one export, with FLUSH, FUA, TRIM and WRITE_ZEROES.
//
// A disk whose power was cut (volatiledisk.ErrCut) never answers again: whoever waits for a flush must not hear that it is done, and no error either, which the
// machine behind would still act on.
package nbd

import (
	"bufio"
	"net"
	"sync"
)

// Disk is what is served. Each method takes whole sectors; what it writes is volatile until Flush, but for WriteDurable.
type Disk interface {
	Size() int64
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	WriteDurable(p []byte, off int64) (int, error)
	Zero(off, n int64) error
	Trim(off, n int64) error
	Flush() error
}

// Server serves one disk to any number of connections, the requests of each in their order.
type Server struct {
	disk     Disk
	listener net.Listener
	wg       sync.WaitGroup // accept, and one per connection

	mu     sync.Mutex // guards conns, closed
	conns  map[net.Conn]struct{}
	closed bool
}

// Serve begins to serve disk to all who connect, until Close.
func Serve(listener net.Listener, disk Disk) *Server {
	s := &Server{disk: disk, listener: listener, conns: map[net.Conn]struct{}{}}
	s.wg.Go(s.accept)
	return s
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		if !s.enter(c) {
			c.Close()
			return
		}
		s.wg.Go(func() {
			defer s.leave(c)
			// What ends a connection is the client's concern: it sees that it has ended.
			_ = (&session{disk: s.disk, r: bufio.NewReaderSize(c, bufferBytes), w: bufio.NewWriterSize(c, bufferBytes)}).run()
		})
	}
}

// bufferBytes holds the small writes of a file system's journal, so that one read of the socket takes several requests.
const bufferBytes = 256 << 10

func (s *Server) enter(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) leave(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Close ends all connections and waits for their goroutines. Repeating it is harmless.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.listener.Close()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
