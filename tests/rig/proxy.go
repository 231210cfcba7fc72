package rig

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy forwards TCP connections and can break them. One goroutine accepts, two serve each connection; Close waits for all.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string
	pairs  map[*proxyPair]struct{}
	closed bool
	resets int
}

// proxyPair is one forwarded connection.
type proxyPair struct{ client, server net.Conn }

// NewProxy listens on a free loopback port and forwards to target (host:port).
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the proxy: %w", err)
	}
	p := &Proxy{listener: l, target: target, pairs: make(map[*proxyPair]struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // one connection failed, the listener lives
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			continue
		}
		pair := &proxyPair{client, server}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			pair.close()
			return
		}
		p.pairs[pair] = struct{}{}
		p.wg.Go(func() { p.forward(pair, client, server) })
		p.wg.Go(func() { p.forward(pair, server, client) })
		p.mu.Unlock()
	}
}

func (p *Proxy) forward(pair *proxyPair, from, to net.Conn) {
	io.Copy(to, from) // an error ends the pair, which is all there is to do
	pair.close()
	p.mu.Lock()
	delete(p.pairs, pair)
	p.mu.Unlock()
}

func (c *proxyPair) close() {
	c.client.Close()
	c.server.Close()
}

// Reset breaks every connection with RST on both sides; bytes under way are lost. It returns how many there were.
func (p *Proxy) Reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.pairs)
	for pair := range p.pairs {
		for _, c := range []net.Conn{pair.client, pair.server} {
			if t, ok := c.(*net.TCPConn); ok {
				t.SetLinger(0) // makes Close send RST
			}
		}
		pair.close()
	}
	p.resets += n
	return n
}

// Resets counts the connections broken so far.
func (p *Proxy) Resets() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resets
}

// SetTarget sends later connections elsewhere.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Close ends all connections and waits for the goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Reset()
	p.wg.Wait()
	return err
}
