package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/mqtt"
)

// asked runs a script against rebirths and gives what left, with the second in which it did.
func asked(t *testing.T, fresh pipeline.Position, script func(r *rebirths, offline *atomic.Bool)) (left []string) {
	synctest.Test(t, func(t *testing.T) {
		var offline atomic.Bool
		start := time.Now()
		r := newRebirths(fresh, func(broker, topic string, payload []byte) error {
			if offline.Load() {
				return fmt.Errorf("publish: %w", mqtt.ErrNotReady)
			}
			left = append(left, fmt.Sprintf("%d %s %s", int(time.Since(start)/time.Second), broker, topic))
			return nil
		}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.run(ctx) }()
		script(r, &offline)
		time.Sleep(10 * time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := r.sentTo("b"); int(n) != len(left) {
			t.Errorf("counted %d requests, %d left", n, len(left))
		}
	})
	return left
}

func hole(r *rebirths, edge string, pos, since pipeline.Position) {
	r.wish("b", time.Minute, pos, codec.Wish{Kind: codec.WishRebirth, Group: "G", Edge: edge, Since: since})
}

func birth(r *rebirths, edge string, pos pipeline.Position) {
	r.wish("b", time.Minute, pos, codec.Wish{Kind: codec.WishGranted, Group: "G", Edge: edge})
}

func TestRebirthRequests(t *testing.T) {
	const e, f = "b spBv1.0/G/NCMD/E", "b spBv1.0/G/NCMD/F"
	for name, c := range map[string]struct {
		fresh  pipeline.Position
		script func(r *rebirths, offline *atomic.Bool)
		want   []string
	}{
		"once per hole, whoever sees it": {0, func(r *rebirths, _ *atomic.Bool) {
			for pos := pipeline.Position(5); pos < 50; pos++ {
				hole(r, "E", pos, 5)
				hole(r, "E", pos, 5)
				time.Sleep(10 * time.Second)
			}
		}, []string{"0 " + e}},
		"what is read again is not asked for": {100, func(r *rebirths, _ *atomic.Bool) { hole(r, "E", 50, 50); hole(r, "E", 100, 50) }, nil},
		"a node that is stale still after a restart is": {100, func(r *rebirths, _ *atomic.Bool) {
			hole(r, "E", 50, 50)
			time.Sleep(time.Second)
			hole(r, "E", 101, 50)
			hole(r, "E", 102, 50)
		}, []string{"1 " + e}},
		"not sooner than a minute after the one before": {0, func(r *rebirths, _ *atomic.Bool) {
			hole(r, "E", 5, 5)
			time.Sleep(time.Second)
			birth(r, "E", 6)
			hole(r, "E", 7, 7)
			hole(r, "E", 8, 7)
		}, []string{"0 " + e, "60 " + e}},
		"not when the birth has come meanwhile": {0, func(r *rebirths, _ *atomic.Bool) {
			hole(r, "E", 5, 5)
			time.Sleep(time.Second)
			hole(r, "E", 7, 7)
			time.Sleep(time.Second)
			birth(r, "E", 8)
		}, []string{"0 " + e}},
		"a birth before the hole does not count": {0, func(r *rebirths, offline *atomic.Bool) {
			offline.Store(true)
			hole(r, "E", 7, 7)
			birth(r, "E", 6) // of a pipeline that lags
			time.Sleep(3500 * time.Millisecond)
			offline.Store(false)
		}, []string{"4 " + e}},
		"nodes are asked one behind the other": {0, func(r *rebirths, _ *atomic.Bool) { hole(r, "E", 5, 5); hole(r, "F", 6, 6) }, []string{"0 " + e, "0 " + f}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := asked(t, c.fresh, c.script); !slices.Equal(got, c.want) {
				t.Errorf("left %q, want %q", got, c.want)
			}
		})
	}
}

func TestNodesBeyondTheBoundAreNotAsked(t *testing.T) {
	r := newRebirths(0, nil, slog.New(slog.DiscardHandler))
	for i := range rebirthNodesMax + 10 {
		hole(r, fmt.Sprint(i), 5, 5)
	}
	if len(r.nodes) != rebirthNodesMax {
		t.Errorf("%d nodes are kept", len(r.nodes))
	}
}
