package mqtt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/pipeline"
)

const (
	// readBufferBytes: packets that fit are parsed where they lie; larger ones go over tap.large.
	readBufferBytes = 64 << 10
	// largeIdle: after so many small packets in a row the buffer for large ones is given back.
	largeIdle = 1024
)

// errTapClosed ends paho's reader. It must not be net.ErrClosed: paho takes that for its own close and reports nothing.
var errTapClosed = errors.New("tap is closed")

// tap is the net.Conn that paho gets: one object per connection, so an acknowledgement can only go out on the connection
// its message came from.
//
// paho's reader goroutine calls Read and owns every field up to the first comment that says otherwise.
type tap struct {
	net.Conn
	session   *Session
	reader    *bufio.Reader
	rest      []byte // of a packet on its way to paho
	control   []byte // backs rest
	topic     []byte // of a packet that does not fit the reader's buffer
	large     []byte // payload of such a packet
	small     int    // packets since large was used
	stub      []byte // payload of an EntryStub under construction
	anchorDue bool
	entry     pipeline.Entry
	run       []arrival        // being worked on, as entries and due
	entries   []pipeline.Entry // records of a run
	due       []waitingAck     // acknowledgements of a run
	first     bool             // no DUP=0 packet id came yet
	kickDue   bool
	present   bool // CONNACK said session_present=1
	resent    bool // since the last PINGREQ of the sweep something came that belongs to messages from before the connection
	progress  atomic.Bool

	reading sync.Mutex // held by Read; close takes it to be sure that nothing is appended any more
	writing sync.Mutex // one packet at a time on the wire
	acks    ackQueue

	connackAt atomic.Int64 // Unix ns, 0 before
	readAt    atomic.Int64 // of the last byte
	pingAt    atomic.Int64 // of the last PINGREQ
	waiting   atomic.Bool  // Read waits for the broker, not for the journal
	arrived   atomic.Uint64
	asked     atomic.Int64 // filters of the SUBSCRIBE that went out

	events    chan tapEvent
	done      chan struct{}
	closeOnce sync.Once
	reason    atomic.Pointer[error] // why Read ended
	stopping  atomic.Bool
}

// tapEvent is what the reader tells the session's goroutine.
type tapEvent uint8

const (
	tapSwept tapEvent = iota // PINGRESP came, SUBSCRIBE is due
	tapFull                  // the journal took nothing
)

// tapEventsMax: each kind is sent at most once per connection.
const tapEventsMax = 2

func newTap(s *Session, conn net.Conn) *tap {
	t := &tap{Conn: conn, session: s, first: true, events: make(chan tapEvent, tapEventsMax), done: make(chan struct{})}
	t.reader = bufio.NewReaderSize(timedReader{conn, &t.readAt}, readBufferBytes)
	t.run, t.entries, t.due = make([]arrival, runMax), make([]pipeline.Entry, runMax), make([]waitingAck, 0, runMax)
	t.acks.kick = make(chan struct{}, 1)
	t.acks.room = make(chan struct{}, 1)
	t.readAt.Store(time.Now().UnixNano())
	return t
}

// timedReader notes when bytes came.
type timedReader struct {
	io.Reader
	at *atomic.Int64
}

func (r timedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		r.at.Store(time.Now().UnixNano())
	}
	return n, err
}

// Read gives paho every packet but PUBLISH, PUBREL and the answer to our own PINGREQ. It runs in paho's reader goroutine: a
// slow journal pushes back on the socket, and nothing is reordered.
func (t *tap) Read(b []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	for len(t.rest) == 0 {
		if err := t.packet(); err != nil {
			return 0, t.broken(err)
		}
	}
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// broken notes why reading ended and gives what paho may see of it. Apart from Read, where its parameter would cost an allocation
// per message.
func (t *tap) broken(err error) error {
	t.reason.CompareAndSwap(nil, &err)
	if errors.Is(err, ErrProtocol) {
		t.session.counters.protocolErrors.Add(1)
	}
	if errors.Is(err, net.ErrClosed) {
		return errTapClosed
	}
	return err
}

// packet takes one packet off the stream.
func (t *tap) packet() error {
	if t.stopping.Load() {
		<-t.done
	}
	select {
	case <-t.done:
		return errTapClosed
	default:
	}
	h, err := t.header()
	if err != nil {
		return err
	}
	switch h.first >> 4 {
	case packetPublish:
		return t.publish(h)
	case packetPubrel:
		body, err := t.body(h, 2)
		if err != nil {
			return err
		}
		return t.release(binary.BigEndian.Uint16(body))
	case packetConnack:
		body, err := t.body(h, 2)
		if err != nil {
			return err
		}
		t.pass(h, body)
		if body[1] == 0 {
			return t.connack(body[0]&1 != 0)
		}
		return nil
	case packetPingresp:
		return t.pong(h)
	}
	if h.remaining > controlBytesMax {
		return fmt.Errorf("read packet type %d of %d bytes: %w", h.first>>4, h.remaining, ErrProtocol)
	}
	if err := checkSuback(h, int(t.asked.Load())); err != nil {
		return err
	}
	body := make([]byte, h.remaining) // SUBACK and the like: a few per connection
	if _, err := t.reader.Discard(h.size); err != nil {
		return err
	}
	if _, err := io.ReadFull(t.reader, body); err != nil {
		return err
	}
	t.pass(h, body)
	return nil
}

// pass puts a packet on its way to paho.
func (t *tap) pass(h header, body []byte) {
	t.control = append(t.control[:0], h.first)
	for n := h.remaining; ; {
		d := byte(n & 0x7f)
		if n >>= 7; n == 0 {
			t.control = append(t.control, d)
			break
		}
		t.control = append(t.control, d|0x80)
	}
	t.control = append(t.control, body...)
	t.rest = t.control
}

// header waits for a fixed header and leaves it in the buffer.
func (t *tap) header() (header, error) {
	for n := min(max(t.reader.Buffered(), 2), headerBytesMax); ; n++ {
		b, err := t.peek(n)
		if err != nil {
			return header{}, err
		}
		h, ok, err := parseHeader(b)
		if err != nil || ok {
			return h, err
		}
	}
}

// peek waits for n bytes. Before it sleeps it hands over what is due, so that nothing waits for the next message.
func (t *tap) peek(n int) ([]byte, error) {
	if t.reader.Buffered() < n {
		t.kickIfDue()
		t.waiting.Store(true)
		defer t.waiting.Store(false)
	}
	return t.reader.Peek(n)
}

// body takes a whole small packet of at least min bytes off the buffer; it is valid until the next read.
func (t *tap) body(h header, min int) ([]byte, error) {
	if h.remaining < min || h.size+h.remaining > readBufferBytes {
		return nil, fmt.Errorf("read packet type %d of %d bytes: %w", h.first>>4, h.remaining, ErrProtocol)
	}
	b, err := t.peek(h.size + h.remaining)
	if err != nil {
		return nil, err
	}
	t.reader.Discard(len(b)) // cannot fail: it is buffered
	return b[h.size:], nil
}

// Write takes whole packets from paho (paho_test.go pins that it writes no parts).
func (t *tap) Write(b []byte) (int, error) {
	switch b[0] >> 4 {
	case packetConnect:
		t.session.connectGoesOut()
	case packetPingreq:
		t.pingAt.Store(time.Now().UnixNano())
	}
	return t.send(b)
}

// send writes b with a deadline. After an error the connection is of no use: it is closed.
func (t *tap) send(b []byte) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.Conn.SetWriteDeadline(time.Now().Add(t.session.config.WriteTimeout)) // fails only on a closed conn; so does Write
	n, err := t.Conn.Write(b)
	if err != nil {
		t.Conn.Close()
	}
	return n, err
}

// Close is for paho; the session uses end.
func (t *tap) Close() error {
	t.closeOnce.Do(func() { close(t.done) })
	return t.Conn.Close()
}

// end closes the connection and waits until its reader appends nothing any more and its acknowledger has ended.
// What was not acknowledged yet is dropped: the broker sends it again.
func (t *tap) end() {
	t.Close()
	t.reading.Lock()
	t.reading.Unlock() //nolint:staticcheck // waits for a Read under way
	t.acks.wait.Wait()
	t.session.counters.staleAcks.Add(uint64(t.acks.discard()))
}

// dead tells whether the broker has kept silent for the ping timeout though we read.
func (t *tap) dead(now time.Time) bool {
	ping := t.pingAt.Load()
	return ping != 0 && ping > t.readAt.Load() && t.waiting.Load() && now.UnixNano()-ping > int64(t.session.config.PingTimeout)
}

func (t *tap) tell(e tapEvent) {
	select {
	case t.events <- e:
	case <-t.done:
	}
}
