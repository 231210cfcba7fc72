package agent

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
)

// lastLinesBytes bounds what is kept of the log in memory.
const lastLinesBytes = 128 << 10

// lastLines keeps the newest lines of the log, in whole lines, for who has no other way to them (diagnostics).
type lastLines struct {
	mu sync.Mutex
	b  []byte
}

// Write takes one line.
func (l *lastLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over := len(l.b) + len(line) - lastLinesBytes; over > 0 {
		over = min(max(over, lastLinesBytes/4), len(l.b)) // seldom, and then much
		if end := bytes.IndexByte(l.b[over:], '\n'); end >= 0 {
			over += end + 1
		}
		l.b = append(l.b[:0], l.b[min(over, len(l.b)):]...)
	}
	l.b = append(l.b, line[:min(len(line), lastLinesBytes)]...)
	return len(line), nil
}

func (l *lastLines) bytes() []byte {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.b)
}

// both hands what is logged to two handlers.
type both struct{ first, second slog.Handler }

// keepLines gives a logger that does what the other one does, and keeps the newest lines.
func keepLines(log *slog.Logger) (*slog.Logger, *lastLines) {
	l := &lastLines{}
	return slog.New(both{log.Handler(), slog.NewTextHandler(l, nil)}), l
}

// Enabled tells whether one of them takes it.
func (b both) Enabled(ctx context.Context, level slog.Level) bool {
	return b.first.Enabled(ctx, level) || b.second.Enabled(ctx, level)
}

// Handle gives it to those that take it.
func (b both) Handle(ctx context.Context, r slog.Record) (err error) {
	if b.second.Enabled(ctx, r.Level) {
		err = b.second.Handle(ctx, r.Clone())
	}
	if b.first.Enabled(ctx, r.Level) {
		err = b.first.Handle(ctx, r)
	}
	return err
}

// WithAttrs gives both.
func (b both) WithAttrs(a []slog.Attr) slog.Handler {
	return both{b.first.WithAttrs(a), b.second.WithAttrs(a)}
}

// WithGroup gives both.
func (b both) WithGroup(name string) slog.Handler {
	return both{b.first.WithGroup(name), b.second.WithGroup(name)}
}
