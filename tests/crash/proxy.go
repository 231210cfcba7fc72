package crash

import (
	"io"
	"net"
	"sync"
)

// proxy stands between the agent and the broker and resets connections.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	conns    map[*net.TCPConn]bool
	closed   bool
	wait     sync.WaitGroup
}

func startProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, conns: map[*net.TCPConn]bool{}}
	p.wait.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.target)
		if err != nil {
			c.Close()
			continue
		}
		a, b := c.(*net.TCPConn), up.(*net.TCPConn)
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			a.Close()
			b.Close()
			return
		}
		p.conns[a], p.conns[b] = true, true
		p.mu.Unlock()
		p.wait.Go(func() { p.copy(a, b) })
		p.wait.Go(func() { p.copy(b, a) })
	}
}

func (p *proxy) copy(to, from *net.TCPConn) {
	io.Copy(to, from)
	to.Close()
	from.Close()
	p.mu.Lock()
	delete(p.conns, to)
	delete(p.conns, from)
	p.mu.Unlock()
}

// reset ends every connection with RST in the middle of whatever it carries.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.SetLinger(0)
		c.Close()
	}
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.reset()
	p.wait.Wait()
}
