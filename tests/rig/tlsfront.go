package rig

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// TLSFront puts TLS before a server that has none, with a certificate that can be changed. One goroutine accepts, two serve each connection; Close
// waits for all.
type TLSFront struct {
	listener net.Listener
	target   string
	greet    func(client, server net.Conn) error
	cert     atomic.Pointer[tls.Certificate]
	wg       sync.WaitGroup
	ctx      context.Context // of everything that it serves; ended by Close
	end      context.CancelFunc
}

// NewTLSFront listens on a free loopback port. greet is what both sides say before the handshake; nil: nothing.
func NewTLSFront(target string, cert *tls.Certificate, greet func(client, server net.Conn) error) (*TLSFront, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for TLS: %w", err)
	}
	f := &TLSFront{listener: l, target: target, greet: greet}
	f.ctx, f.end = context.WithCancel(context.Background())
	f.cert.Store(cert)
	f.wg.Go(f.accept)
	return f, nil
}

// Addr is where it listens.
func (f *TLSFront) Addr() string { return f.listener.Addr().String() }

// Show makes it show another certificate from the next connection on.
func (f *TLSFront) Show(cert *tls.Certificate) { f.cert.Store(cert) }

// Close ends all connections.
func (f *TLSFront) Close() {
	f.end()
	_ = f.listener.Close()
	f.wg.Wait()
}

func (f *TLSFront) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() { f.serve(c) })
	}
}

// serve ends when either side does, or Close is called.
func (f *TLSFront) serve(c net.Conn) {
	defer c.Close()
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(f.ctx, func() { c.Close(); server.Close() })()
	if f.greet != nil && f.greet(c, server) != nil {
		return
	}
	client := tls.Server(c, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.cert.Load(), nil }})
	if client.HandshakeContext(f.ctx) != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(client, server)
		c.Close()
	})
	_, _ = io.Copy(server, client)
	server.Close()
	answers.Wait()
}
