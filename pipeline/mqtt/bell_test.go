package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// heardBell is a doorbell that runs until the test ends.
type heardBell struct {
	mu    sync.Mutex
	rings []string
	heard bool
}

func listenToBell(t *testing.T, c SessionConfig) *heardBell {
	t.Helper()
	b, err := NewBell(c, "weir/fleet/stable", slog.New(slog.NewTextHandler(testLog(t), nil)))
	if err != nil {
		t.Fatal(err)
	}
	h, over := &heardBell{}, make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); <-over })
	go func() {
		defer close(over)
		b.Run(ctx, func(p []byte) { h.mu.Lock(); h.rings = append(h.rings, string(p)); h.mu.Unlock() }, func(on bool) { h.mu.Lock(); h.heard = on; h.mu.Unlock() })
	}()
	return h
}

func (h *heardBell) is(heard bool, rings ...string) func() bool {
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.heard != heard || len(h.rings) < len(rings) {
			return false
		}
		for i, want := range rings {
			if h.rings[i] != want {
				return false
			}
		}
		return true
	}
}

// TestDoorbell: the retained number at once, each later one, and again behind a connection that was lost; never on the session of the sources.
func TestDoorbell(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{})
	b.Publish("weir/fleet/stable", 0, true, []byte("7"))
	c := testConfig("mqtt://"+b.Addr(), 1)
	h := listenToBell(t, c)
	eventually(t, "the retained number", h.is(true, "7"))
	b.Publish("weir/fleet/other", 0, false, []byte("99"))
	b.Publish("weir/fleet/stable", 0, false, []byte("8"))
	eventually(t, "the next", h.is(true, "7", "8"))
	if b.Drop(testClient) {
		t.Error("the doorbell speaks as the sources' client")
	}
	if !b.Drop(testClient + "-fleet") {
		t.Error("the doorbell has no connection of its own")
	}
	eventually(t, "the retained number behind a new connection", h.is(true, "7", "8", "7"))
}

// TestDoorbellOverTLS: with the broker's CA, its password and its user, as the sources have them; a broker that shows another certificate is not heard, and heard again when it shows its own.
func TestDoorbellOverTLS(t *testing.T) {
	dir := t.TempDir()
	ca, err := rig.NewAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	strangers, err := rig.NewAuthority(dir, "strangers")
	if err != nil {
		t.Fatal(err)
	}
	sign := func(a *rig.Authority) *tls.Certificate {
		pair, err := a.Sign("127.0.0.1", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	own, strange := sign(ca), sign(strangers)
	b := newBroker(t, rig.BrokerConfig{})
	front, err := rig.NewTLSFront(b.Addr(), strange, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Publish("weir/fleet/stable", 0, true, []byte("7"))
	c := testConfig("mqtts://"+front.Addr(), 1)
	c.CAFile, c.Username, c.PasswordFile = ca.File, "gw", password
	h := listenToBell(t, c)
	probe, err := NewBell(c, "weir/fleet/stable", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := probe.listen(t.Context(), func([]byte) {}, func() { t.Error("a stranger is heard") }); err == nil {
		t.Error("a stranger's certificate is taken")
	} else if unknown := (*tls.CertificateVerificationError)(nil); !errors.As(err, &unknown) {
		t.Logf("refused: %v", err)
	}
	if !h.is(false)() {
		t.Error("the doorbell has spoken to a stranger")
	}
	front.Show(own)
	eventually(t, "the broker's own certificate", h.is(true, "7"))
	b.Publish("weir/fleet/stable", 0, false, []byte("8"))
	eventually(t, "a ring over TLS", h.is(true, "7", "8"))
}
