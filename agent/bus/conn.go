package bus

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrGone comes when the connection is over, and from then on: dial again.
var ErrGone = errors.New("the connection to the system bus is over")

// signalsMost wait to be taken. An installation sends some twenty in a second.
const signalsMost = 1024

// Conn is a connection to the system bus. Its goroutine read owns the reading side; mu guards what it shares with callers.
type Conn struct {
	net     net.Conn
	in      *bufio.Reader
	writing chan struct{} // held while a message is written: a token, since waiting for it must end with a context
	done    sync.WaitGroup

	mu      sync.Mutex
	serial  uint32
	waiting map[uint32]chan message
	signals []Signal
	came    chan struct{} // closed and made anew when there is a signal or an end
	broken  error

	drops bool // a planted mistake: signals that nobody takes are lost
}

// Address is where the system bus listens: DBUS_SYSTEM_BUS_ADDRESS, else the usual place.
func Address() string {
	if a := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"); a != "" {
		return a
	}
	return "unix:path=/run/dbus/system_bus_socket"
}

// Dial connects to the bus at an address and says hello. ctx bounds that alone.
func Dial(ctx context.Context, address string) (*Conn, error) {
	path, is := strings.CutPrefix(address, "unix:path=")
	if !is {
		return nil, fmt.Errorf("connect to the system bus at %q: only unix:path= is known", address)
	}
	path, _, _ = strings.Cut(path, ",")
	nc, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to the system bus: %w", err)
	}
	c := &Conn{net: nc, in: bufio.NewReader(nc), writing: make(chan struct{}, 1), waiting: map[uint32]chan message{}, came: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	err = c.authenticate()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("authenticate at the system bus: %w", err)
	}
	c.done.Go(c.read)
	if _, err := c.Call(ctx, busName, busPath, busName, "Hello"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// The bus itself, as a service.
const (
	busName = "org.freedesktop.DBus"
	busPath = "/org/freedesktop/DBus"
)

// authenticate says who this process is; the bus asks the kernel whether that is so.
func (c *Conn) authenticate() error {
	if _, err := fmt.Fprintf(c.net, "\x00AUTH EXTERNAL %s\r\n", hex.EncodeToString([]byte(strconv.Itoa(os.Getuid())))); err != nil {
		return err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(line), "OK ") {
		return fmt.Errorf("it answered %q", strings.TrimSpace(string(line)))
	}
	_, err = io.WriteString(c.net, "BEGIN\r\n")
	return err
}

// Close ends the connection and waits for its goroutine. A repeat is harmless.
func (c *Conn) Close() error {
	err := c.net.Close()
	c.done.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// read gives answers to who waits for them and queues signals, until the connection fails.
func (c *Conn) read() {
	for {
		m, err := readMessage(c.in)
		if err == nil {
			err = c.take(m)
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

func (c *Conn) take(m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.kind {
	case signal:
		if len(c.signals) >= signalsMost {
			if c.drops {
				return nil
			}
			return fmt.Errorf("nobody takes its signals: %d wait", len(c.signals))
		}
		c.signals = append(c.signals, Signal{m.fields[fieldPath], m.fields[fieldInterface], m.fields[fieldMember], m.fields[fieldSender], m.body})
		c.wake()
	case answer, failure:
		if wait := c.waiting[m.reply]; wait != nil {
			delete(c.waiting, m.reply)
			wait <- m // it has room for the one answer
		}
	}
	return nil
}

// wake is called with mu held.
func (c *Conn) wake() {
	close(c.came)
	c.came = make(chan struct{})
}

// end breaks the connection: everyone who waits hears of it. The first reason stays.
func (c *Conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = fmt.Errorf("%w: %w", ErrGone, err)
	}
	c.net.Close()
	for serial, wait := range c.waiting {
		close(wait)
		delete(c.waiting, serial)
	}
	c.wake()
}

// err is why the connection is over.
func (c *Conn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}
