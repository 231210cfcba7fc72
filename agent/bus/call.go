package bus

import (
	"context"
	"fmt"
	"time"
)

// Signal is one that a match asked for. Sender is the unique name of who sent it.
type Signal struct {
	Path, Interface, Member, Sender string
	Body                            []any
}

// Error is what a method answered.
type Error struct{ Name, Text string }

func (e *Error) Error() string { return e.Name + ": " + e.Text }

// Call calls a method and waits for its answer, as long as ctx lasts. An error is an *Error of the peer's, ErrGone, or the context's: then the peer may have done what it was asked.
func (c *Conn) Call(ctx context.Context, to, path, iface, member string, args ...any) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	wait := make(chan message, 1)
	serial, err := c.await(wait)
	if err != nil {
		return nil, err
	}
	defer c.forget(serial)
	b, err := encodeCall(serial, to, path, iface, member, args)
	if err == nil {
		err = c.write(ctx, b)
	}
	if err != nil {
		return nil, fmt.Errorf("call %s.%s: %w", iface, member, err)
	}
	select {
	case m, ok := <-wait:
		switch {
		case !ok:
			return nil, fmt.Errorf("call %s.%s: %w", iface, member, c.err())
		case m.kind == failure:
			text := ""
			if len(m.body) > 0 {
				text, _ = m.body[0].(string)
			}
			return nil, &Error{m.fields[fieldError], text}
		}
		return m.body, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("call %s.%s: no answer: %w", iface, member, ctx.Err())
	}
}

// await registers who waits for the answer to a new serial.
func (c *Conn) await(wait chan message) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return 0, c.broken
	}
	if c.serial++; c.serial == 0 { // 0 is none
		c.serial++
	}
	c.waiting[c.serial] = wait
	return c.serial, nil
}

func (c *Conn) forget(serial uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, serial)
}

// write sends a message. One that could not be sent whole ends the connection: the rest of it would be read as the next one.
func (c *Conn) write(ctx context.Context, b []byte) error {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.writing }()
	stop := context.AfterFunc(ctx, func() { c.net.SetWriteDeadline(time.Unix(1, 0)) })
	_, err := c.net.Write(b)
	if !stop() && err == nil {
		err = ctx.Err() // the deadline stands: nothing can be written any more
	}
	if err != nil {
		c.end(err)
		return c.err()
	}
	return nil
}

// Next waits for a signal that a match asked for, in the order in which they came.
func (c *Conn) Next(ctx context.Context) (Signal, error) {
	for {
		c.mu.Lock()
		if len(c.signals) > 0 {
			s := c.signals[0]
			c.signals = c.signals[1:]
			c.mu.Unlock()
			return s, nil
		}
		came, broken := c.came, c.broken
		c.mu.Unlock()
		if broken != nil {
			return Signal{}, broken
		}
		select {
		case <-came:
		case <-ctx.Done():
			return Signal{}, ctx.Err()
		}
	}
}

// Property reads one.
func (c *Conn) Property(ctx context.Context, to, path, iface, name string) (any, error) {
	body, err := c.Call(ctx, to, path, "org.freedesktop.DBus.Properties", "Get", iface, name)
	if err != nil {
		return nil, err
	}
	if len(body) != 1 {
		return nil, fmt.Errorf("property %s.%s: %d values", iface, name, len(body))
	}
	return body[0], nil
}

// Owner is the unique name of the process that has a name now: calls to it reach no other that takes the name later.
func (c *Conn) Owner(ctx context.Context, name string) (string, error) {
	body, err := c.Call(ctx, busName, busPath, busName, "GetNameOwner", name)
	if err != nil {
		return "", err
	}
	if len(body) == 1 {
		if owner, ok := body[0].(string); ok {
			return owner, nil
		}
	}
	return "", fmt.Errorf("owner of %s: %v", name, body)
}

// Match asks for signals by a rule of the specification: type='signal',member='Completed'. When it returns, none that is sent from now on is missed.
func (c *Conn) Match(ctx context.Context, rule string) error {
	_, err := c.Call(ctx, busName, busPath, busName, "AddMatch", rule)
	return err
}
