package mqtt

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// bellPacketMax bounds a packet of the doorbell's connection: its messages are numbers, and the library allocates what the broker says.
const bellPacketMax = 4 << 10

// Bell listens on one topic, on a connection of its own with a clean session and QoS 0: what it does or fails to do never touches the session of the sources.
type Bell struct {
	config SessionConfig
	topic  string
	log    *slog.Logger
}

// NewBell makes one; nothing is connected. Of the config, sources count for nothing.
func NewBell(c SessionConfig, topic string, log *slog.Logger) (*Bell, error) {
	if err := c.validateURL(); err != nil {
		return nil, fmt.Errorf("broker %s: %w", c.Name, err)
	}
	return &Bell{config: c, topic: topic, log: log}, nil
}

// Run listens until ctx ends: ring has each message, retained ones included; heard is told when the subscription comes and goes. Both are called by the library's goroutine or Run's, and must not block.
func (b *Bell) Run(ctx context.Context, ring func(payload []byte), heard func(bool)) {
	failures, told := flaps{}, false
	for ctx.Err() == nil {
		begun := time.Now()
		err := b.listen(ctx, ring, func() {
			if told {
				b.log.Info("doorbell is heard again", "broker", b.config.Name)
			}
			told = false
			heard(true)
		})
		heard(false)
		if ctx.Err() != nil {
			return
		}
		if !told {
			told = true
			b.log.Warn("doorbell is not heard; it is looked as often as without one", "broker", b.config.Name, "topic", b.topic, "error", err)
		}
		failures = failures.after(ending{connected: time.Since(begun) > calmLife, lived: time.Since(begun)})
		select {
		case <-time.After(failures.wait(time.Second, max(b.config.ReconnectMax, time.Minute), b.config.TakeoverWait, rand.Float64())):
		case <-ctx.Done():
		}
	}
}

// listen is one connection, until it is lost.
func (b *Bell) listen(ctx context.Context, ring func([]byte), ready func()) error {
	l, err := listenTo(ctx, &b.config, "-fleet", b.topic, bellPacketMax, ring)
	if err != nil {
		return err
	}
	defer l.close()
	ready()
	select {
	case <-l.lost:
		return errConnectionLost
	case <-ctx.Done():
		return ctx.Err()
	}
}
