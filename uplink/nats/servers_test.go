package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadServers: each is named, and all are temporary.
func TestBadServers(t *testing.T) {
	n := startServer(t, nil)
	n.makeStream(t, "WORK", "work.>", map[string]any{"retention": "workqueue"})
	none, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer garbage.Close()
	go func() { // ends when the listener closes
		for {
			c, err := garbage.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n<html>welcome</html>\r\n")
			c.Close()
		}
	}()
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		set  func(*Config)
		says string
	}{
		{"unreachable", func(c *Config) { c.URL = "nats://" + none }, "no servers available"},
		{"200 with garbage", func(c *Config) { c.URL = "nats://" + garbage.Addr().String() }, "connect to"},
		{"wrong password", func(c *Config) { c.PasswordFile = wrong }, "Authorization Violation"},
		{"no password file", func(c *Config) { c.PasswordFile = wrong + "x" }, "no such file"},
		{"missing stream", func(c *Config) { c.Stream = "NONE" }, "stream not found"},
		{"work queue", func(c *Config) { c.Stream = "WORK" }, "retention"},
		{"subject is another stream's", func(c *Config) { c.Subject = "work" }, "expected stream does not match"},
		{"subject is no stream's", func(c *Config) { c.Subject = "nowhere" }, "no stream takes the subject"},
		{"private address", func(c *Config) { c.DenyPrivate = true }, uplink.ErrPrivate.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := n.config
			c.set(&config)
			s, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
			defer cancel()
			_, err = s.Open(ctx, uplinktest.Stream(), one, 1)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("open: %v, want it to say %q", err, c.says)
			}
			if errors.Is(err, uplink.ErrFenced) || errors.Is(err, uplink.ErrRejected) {
				t.Fatalf("open: %v is final", err)
			}
			t.Log(err)
		})
	}
}

func TestForeignMessageIsLeftAlone(t *testing.T) {
	n := startServer(t, nil)
	var ack struct{ Seq uint64 }
	if err := n.Request("weir.gw-1.p-1.out", map[string]any{"not": "weir's"}, &ack); err != nil {
		t.Fatal(err)
	}
	if ack.Seq != 1 {
		t.Fatalf("%+v", ack)
	}
	s := n.Connect(t, "a")
	defer s.Close()
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); !errors.Is(err, ErrForeign) {
		t.Fatalf("open: %v, want ErrForeign", err)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for says, set := range map[string]func(*Config){
		"url": func(c *Config) { c.URL = "http://x" }, "holds a password": func(c *Config) { c.URL = "nats://a:b@x:1" }, "stream": func(c *Config) { c.Stream = "a.b" },
		"subject": func(c *Config) { c.Subject = "a..b" }, "dial timeout": func(c *Config) { c.DialTimeout = 0 }, "go together": func(c *Config) { c.User = "a" },
		"at most one": func(c *Config) { c.TokenFile, c.CredentialsFile = "a", "b" },
	} {
		c := Default()
		c.URL, c.Stream = "nats://host:4222", "S"
		set(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want it to say %s", err, says)
		}
	}
}
