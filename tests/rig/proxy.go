package rig

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
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

	requests, answers gate
	up, down          atomic.Int64
}

// gate breaks one direction.
type gate struct {
	slow atomic.Pointer[radio]
	cut  atomic.Int64 // bytes that still pass, plus one; 0: no limit
	mute atomic.Bool  // what comes is thrown away
}

// take tells how many of n bytes pass, and whether the connection is to be broken behind them.
func (g *gate) take(n int) (pass int, broken bool) {
	for {
		left := g.cut.Load()
		switch {
		case left == 0:
			return n, false
		case int64(n) < left:
			if g.cut.CompareAndSwap(left, left-int64(n)) {
				return n, false
			}
		default:
			if g.cut.CompareAndSwap(left, 0) { // the next connection is whole
				return int(left - 1), true
			}
		}
	}
}

// CutRequest lets n bytes more pass from clients to the server; at the next one it resets that connection.
func (p *Proxy) CutRequest(n int) { p.requests.cut.Store(int64(n) + 1) }

// CutAnswer lets n bytes more pass from the server to clients; at the next one it resets that connection: with 0, the server has done
// what was asked and nobody learns of it.
func (p *Proxy) CutAnswer(n int) { p.answers.cut.Store(int64(n) + 1) }

// Mute throws away every answer while it is on; connections stay.
func (p *Proxy) Mute(on bool) { p.answers.mute.Store(on) }

// Passed is how many bytes went to the server and came back.
func (p *Proxy) Passed() (up, down int64) { return p.up.Load(), p.down.Load() }

// Strand makes the connections that are there carry nothing more, in either direction and without a sign of it, as a router does that forgot
// them. New ones are whole.
func (p *Proxy) Strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pair := range p.pairs {
		pair.stranded.Store(true)
	}
}

// proxyPair is one forwarded connection.
type proxyPair struct {
	client, server net.Conn
	stranded       atomic.Bool
}

// NewProxy listens on a free loopback port and forwards to target (host:port).
func NewProxy(target string) (*Proxy, error) { return NewProxyAt("127.0.0.1:0", target) }

// NewProxyAt listens on addr and forwards to target (both host:port).
func NewProxyAt(addr, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", addr)
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
		pair := &proxyPair{client: client, server: server}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			pair.close()
			return
		}
		p.pairs[pair] = struct{}{}
		p.wg.Go(func() { p.forward(pair, client, server, &p.requests, &p.up) })
		p.wg.Go(func() { p.forward(pair, server, client, &p.answers, &p.down) })
		p.mu.Unlock()
	}
}

func (p *Proxy) forward(pair *proxyPair, from, to net.Conn, g *gate, passed *atomic.Int64) {
	buf := make([]byte, 32<<10)
	var late later
	defer late.wait()
	for { // an error ends the pair, which is all there is to do
		r := g.slow.Load()
		n, err := from.Read(r.part(buf))
		pass, broken := g.take(n)
		if r != nil && n > 0 && r.carry(n) {
			pass, broken = 0, true
		}
		if pass > 0 && !g.mute.Load() && !pair.stranded.Load() {
			passed.Add(int64(pass))
			if r != nil {
				late.write(to, buf[:pass], r.latency)
			} else if _, werr := to.Write(buf[:pass]); werr != nil {
				break
			}
		}
		if broken {
			pair.reset()
			break
		}
		if err != nil {
			break
		}
	}
	late.wait()
	pair.close()
	p.mu.Lock()
	delete(p.pairs, pair)
	p.mu.Unlock()
}

// reset breaks both sides with RST; bytes under way are lost.
func (c *proxyPair) reset() {
	for _, conn := range []net.Conn{c.client, c.server} {
		if t, ok := conn.(*net.TCPConn); ok {
			t.SetLinger(0) // makes Close send RST
		}
	}
	c.close()
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
		pair.reset()
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
