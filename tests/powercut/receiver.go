//go:build !arm && !386

package powercut

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/uplink/receiver"
)

// far is the receiver, outside of the disk whose power is cut. Below /slow it takes slowness before it looks at a batch, so that the outbox of such sinks is
// never empty. copy stops it for an instant: what it holds then is what it has answered, and what it is about to answer.
type far struct {
	file     string
	held     *receiver.Receiver
	listener net.Listener
	server   *http.Server
	served   chan struct{}
	slowness atomic.Int64

	gate sync.RWMutex
}

func newFar(file string, slowness time.Duration) (*far, error) {
	held, err := receiver.Open(receiver.Options{Path: file, Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		held.Close()
		return nil, fmt.Errorf("listen for the receiver: %w", err)
	}
	f := &far{file: file, held: held, listener: l, served: make(chan struct{})}
	f.slowness.Store(int64(slowness))
	f.server = &http.Server{Handler: http.HandlerFunc(f.serve)}
	go func() { // close waits for it
		defer close(f.served)
		f.server.Serve(l) //nolint:errcheck // ends with close
	}()
	return f, nil
}

func (f *far) addr() string { return f.listener.Addr().String() }

func (f *far) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/slow") {
		time.Sleep(time.Duration(f.slowness.Load()))
	}
	f.gate.RLock()
	defer f.gate.RUnlock()
	f.held.ServeHTTP(w, r)
}

// during copies what the receiver holds into file, and calls do while it takes nothing.
func (f *far) during(file string, do func()) error {
	f.gate.Lock()
	defer f.gate.Unlock()
	do()
	from, err := os.Open(f.file)
	if err != nil {
		return fmt.Errorf("copy the receiver: %w", err)
	}
	defer from.Close()
	to, err := os.Create(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("copy the receiver: %w", err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		return fmt.Errorf("copy the receiver: %w", err)
	}
	return nil
}

func (f *far) close() error {
	f.server.Close()
	<-f.served
	return f.held.Close()
}
