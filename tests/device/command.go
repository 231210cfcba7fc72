package device

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// commands is the host's end of a shell on the machine. The machine connects at each boot.
type commands struct {
	listener net.Listener
	came     chan net.Conn
	conn     net.Conn // that of the machine that runs; nil: none has been asked yet
	lines    *bufio.Reader
}

func newCommands() (*commands, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &commands{listener: l, came: make(chan net.Conn, 100)}
	go func() { // ends with close
		defer close(c.came)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.came <- conn
		}
	}()
	return c, nil
}

func (c *commands) addr() string { return c.listener.Addr().String() }

// forget hangs up: the machine that was connected is no more.
func (c *commands) forget() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
	for {
		select {
		case conn, open := <-c.came:
			if !open {
				return
			}
			conn.Close()
		default:
			return
		}
	}
}

func (c *commands) close() {
	c.listener.Close()
	for conn := range c.came {
		conn.Close()
	}
	if c.conn != nil {
		c.conn.Close()
	}
}

// errShell: the machine does not answer.
var errShell = errors.New("the machine does not do what it is told")

// run has the machine carry a line of shell out, and gives what it prints and its exit code.
func (c *commands) run(ctx context.Context, line string, patience time.Duration) (out string, code int, err error) {
	if c.conn == nil {
		select {
		case conn, open := <-c.came:
			if !open {
				return "", 0, net.ErrClosed
			}
			c.conn, c.lines = conn, bufio.NewReader(conn)
		case <-time.After(patience):
			return "", 0, fmt.Errorf("%w: it has not connected within %s", errShell, patience)
		case <-ctx.Done():
			return "", 0, ctx.Err()
		}
	}
	defer func() {
		if err != nil { // the next one waits for another connection
			c.conn.Close()
			c.conn = nil
		}
	}()
	err = c.conn.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = c.conn.Write([]byte(line + "\n"))
	}
	if err != nil {
		return "", 0, fmt.Errorf("%w: %s: %w", errShell, line, err)
	}
	var text strings.Builder
	for {
		l, err := c.lines.ReadString('\n')
		if err != nil {
			return "", 0, fmt.Errorf("%w: %s: %w", errShell, line, err)
		}
		if end, ok := strings.CutPrefix(l, commandEnd); ok {
			code, err := strconv.Atoi(strings.TrimSpace(end))
			return strings.TrimSpace(text.String()), code, err
		}
		text.WriteString(l)
	}
}

// sh has the machine carry out a command that must not fail.
func (st *stage) sh(line string) string {
	st.t.Helper()
	out, code, err := st.commands.run(st.t.Context(), line, bootMost)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", line, code, out)
	}
	if err != nil {
		st.t.Fatalf("%v\n%s", err, st.console())
	}
	return out
}

// until waits for a condition, and follows meanwhile what arrives.
func (st *stage) until(what string, holds func() bool) {
	st.t.Helper()
	for deadline := time.Now().Add(upgradeMost); !holds(); time.Sleep(followPoll) {
		st.must(st.oracle.follow())
		select {
		case <-st.vm.child.Done():
			st.t.Fatalf("%v:\n%s", errEnded, st.console())
		default:
		}
		if time.Now().After(deadline) {
			st.t.Fatalf("%v: %s without this: %s\n%s", errTooLong, upgradeMost, what, st.console())
		}
	}
}
