package bus

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// peer is a bus of the test's own: it greets, and then does what the test says.
type peer struct {
	address string
	conn    chan net.Conn
}

func startPeer(t *testing.T) *peer {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{"unix:path=" + filepath.Join(dir, "bus"), make(chan net.Conn, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		in := bufio.NewReader(c)
		if line, _ := in.ReadString('\n'); !strings.HasPrefix(line, "\x00AUTH EXTERNAL ") {
			c.Close()
			return
		}
		c.Write([]byte("OK 1234\r\n"))
		in.ReadString('\n')
		m, err := readMessage(in) // Hello, with serial 1
		if err != nil || m.fields[fieldMember] != "Hello" {
			c.Close()
			return
		}
		c.Write(sent(answer, 1, ""))
		p.conn <- c
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return p
}

// sent is a message that a bus sends: an answer to a serial, or a signal.
func sent(kind byte, reply uint32, member string) []byte {
	e := encoder{[]byte{'l', kind, 0, 1}}
	e.u32(0)
	e.u32(1)
	e.array(8, func() error {
		if kind == signal {
			e.align(8)
			e.b = append(e.b, fieldMember)
			e.signature("s")
			e.text(member)
			return nil
		}
		e.align(8)
		e.b = append(e.b, fieldReply)
		e.signature("u")
		e.u32(reply)
		return nil
	})
	e.align(8)
	return e.b
}

func dialPeer(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	p := startPeer(t)
	ctx, stop := context.WithTimeout(t.Context(), rig.Patience)
	defer stop()
	c, err := Dial(ctx, p.address)
	if err != nil {
		t.Fatal(err)
	}
	far := <-p.conn
	t.Cleanup(func() { c.Close(); far.Close() })
	return c, far
}

// answersOnce has the far end answer the next call when it has read it: an answer that comes before its call waits for nobody, and is lost.
func answersOnce(t *testing.T, far net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := readMessage(bufio.NewReader(far)); err == nil {
			far.Write(sent(answer, 2, ""))
		}
	}()
	t.Cleanup(func() { far.Close(); <-done })
}

// TestSignalsHoldNothingUp: answers come though nobody takes signals, and those that were sent before come out in their order.
func TestSignalsHoldNothingUp(t *testing.T) {
	c, far := dialPeer(t)
	for range signalsMost - 1 {
		far.Write(sent(signal, 0, "first"))
	}
	far.Write(sent(signal, 0, "last"))
	answersOnce(t, far)
	if _, err := c.Call(t.Context(), "a.b", "/", "a.b", "M"); err != nil {
		t.Fatal(err)
	}
	for i := range signalsMost {
		s, err := c.Next(t.Context())
		if err != nil || (i == signalsMost-1) != (s.Member == "last") {
			t.Fatalf("signal %d: %+v %v", i, s, err)
		}
	}
}

// overflows sends one signal more than are kept, and gives what a caller sees.
func overflows(t *testing.T, drops bool) error {
	c, far := dialPeer(t)
	c.mu.Lock()
	c.drops = drops
	c.mu.Unlock()
	for range signalsMost + 1 {
		far.Write(sent(signal, 0, "s"))
	}
	answersOnce(t, far)
	_, err := c.Call(t.Context(), "a.b", "/", "a.b", "M")
	return err
}

func TestSignalsAreNotLostSilently(t *testing.T) {
	if err := overflows(t, false); !errors.Is(err, ErrGone) {
		t.Errorf("a signal was lost, and the caller sees %v", err)
	}
	if err := overflows(t, true); err != nil { // planted: what the test above would find
		t.Errorf("the planted mistake is not in force: %v", err)
	}
}

// TestBusThatDoesNotRead: the context ends a write that hangs, and the connection is over.
func TestBusThatDoesNotRead(t *testing.T) {
	c, _ := dialPeer(t)
	ctx, cancel := context.WithCancel(t.Context())
	large := strings.Repeat("x", 8<<20) // more than a socket holds
	ended := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, "a.b", "/", "a.b", "M", large)
		ended <- err
	}()
	for len(c.writing) == 0 {
		time.Sleep(time.Millisecond)
	}
	second, cancelSecond := context.WithCancel(t.Context())
	cancelSecond()
	if _, err := c.Call(second, "a.b", "/", "a.b", "M"); !errors.Is(err, context.Canceled) {
		t.Errorf("a call behind the write: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, ErrGone) {
		t.Errorf("the write: %v", err)
	}
	if _, err := c.Call(t.Context(), "a.b", "/", "a.b", "M"); !errors.Is(err, ErrGone) {
		t.Errorf("a call on what is over: %v", err)
	}
}

func TestBusThatGoes(t *testing.T) {
	c, far := dialPeer(t)
	ended := make(chan error, 2)
	go func() { _, err := c.Call(t.Context(), "a.b", "/", "a.b", "M"); ended <- err }()
	go func() { _, err := c.Next(t.Context()); ended <- err }()
	far.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, ErrGone) {
			t.Errorf("got %v", err)
		}
	}
}

func TestBusThatSpeaksNonsense(t *testing.T) {
	c, far := dialPeer(t)
	far.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 4))
	if _, err := c.Next(t.Context()); !errors.Is(err, ErrGone) || !errors.Is(err, errForm) {
		t.Errorf("got %v", err)
	}
}

func TestNoBus(t *testing.T) {
	for _, address := range []string{"unix:path=" + filepath.Join(t.TempDir(), "none"), "tcp:host=x", ""} {
		if _, err := Dial(t.Context(), address); err == nil {
			t.Errorf("%q is a bus", address)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(gone, startPeer(t).address); err == nil {
		t.Error("dialled with a context that has ended")
	}
}

// TestDaemon is against the real one.
func TestDaemon(t *testing.T) {
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("NOT TESTED HERE: the D-Bus client against dbus-daemon: it is not installed")
	}
	dir := t.TempDir()
	address := "unix:path=" + filepath.Join(dir, "bus")
	config := filepath.Join(dir, "bus.conf")
	text := `<busconfig><listen>` + address + `</listen><auth>EXTERNAL</auth><policy context="default"><allow user="*"/><allow own="*"/><allow send_type="*"/><allow send_destination="*"/><allow receive_type="*"/></policy></busconfig>`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon, "--config-file="+config, "--nofork", "--nopidfile")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	ctx, stop := context.WithTimeout(t.Context(), rig.Patience)
	defer stop()
	c, err := Dial(ctx, address)
	for err != nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		c, err = Dial(ctx, address)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Match(ctx, "type='signal',member='NameOwnerChanged',arg0='de.weir.Test'"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(ctx, busName, busPath, busName, "RequestName", "de.weir.Test", uint32(0)); err != nil {
		t.Fatal(err)
	}
	owner, err := c.Owner(ctx, "de.weir.Test")
	if err != nil || !strings.HasPrefix(owner, ":") {
		t.Fatalf("owner %q, %v", owner, err)
	}
	s, err := c.Next(ctx)
	for err == nil && s.Member != "NameOwnerChanged" { // NameAcquired comes unasked
		s, err = c.Next(ctx)
	}
	if err != nil || len(s.Body) != 3 || s.Body[2] != owner || s.Sender != busName {
		t.Errorf("signal %+v, %v", s, err)
	}
	if v, err := c.Property(ctx, busName, busPath, busName, "Features"); err != nil || v == nil {
		t.Errorf("features %v, %v", v, err)
	}
	var refused *Error
	if _, err := c.Call(ctx, busName, busPath, busName, "Nonsense", map[string]Variant{"a": {Value: "b"}, "d": {Value: []string{"x"}}}); !errors.As(err, &refused) || refused.Name != "org.freedesktop.DBus.Error.UnknownMethod" {
		t.Errorf("nonsense: %v", err)
	}
	cmd.Process.Kill()
	for err = nil; err == nil; {
		_, err = c.Next(ctx) // what had come before
	}
	if !errors.Is(err, ErrGone) {
		t.Errorf("the daemon is gone: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
