package uplinktest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Lines is a log that may be read while it is written.
type Lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Logger writes into it, a line for each record.
func (l *Lines) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
