package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadServersAtASaneRate: each is named with what to do, at the rate of kinds of failure, and all is appended once it is mended.
func TestBadServersAtASaneRate(t *testing.T) {
	start := func(t *testing.T, dir string, settings ...string) *server {
		t.Helper()
		far, err := rig.StartNATS(dir, settings...)
		if errors.Is(err, rig.ErrNoTool) {
			t.Skipf("NOT TESTED against nats-server: %v", err)
		}
		uplinktest.Must(t, err)
		t.Cleanup(func() { far.Kill() })
		n := &server{NATS: far, config: Default()}
		n.config.URL, n.config.Stream, n.config.User, n.config.PasswordFile = "nats://"+far.Addr, testStream, rig.NATSUser, far.PasswordFile
		return n
	}
	// fill puts so many bytes into the stream BALLAST, or what fits.
	fill := func(t *testing.T, n *server, size int) {
		t.Helper()
		conn, err := n.Dial()
		uplinktest.Must(t, err)
		defer conn.Close()
		for ; size > 0; size -= 32 << 10 {
			answer, err := conn.Request("ballast.x", make([]byte, min(size, 32<<10)), 10*time.Second)
			uplinktest.Must(t, err)
			if bytes.Contains(answer.Data, []byte(`"error"`)) {
				return
			}
		}
	}
	var n *server
	var file string
	var drain func()
	bad := []uplinktest.Bad{
		{Name: "no such stream", Want: []string{testStream, "stream not found", "make it there", "weir.>"},
			Dial: func(t *testing.T) uplink.Endpoint {
				n = start(t, t.TempDir())
				return n.Connect(t, "a")
			},
			Heal: func(t *testing.T) { n.makeStream(t, testStream, "weir.>", nil) }},
		{Name: "stream of other subjects", Want: []string{"no stream takes the subject", "subjects"},
			Dial: func(t *testing.T) uplink.Endpoint {
				n = start(t, t.TempDir())
				n.makeStream(t, testStream, "other.>", nil)
				return n.Connect(t, "a")
			},
			Heal: func(t *testing.T) { n.changeStream(t, testStream, "weir.>", nil) }},
		{Name: "wrong password", Want: []string{"Authorization Violation", "password_file"}, Secret: "sesame",
			Dial: func(t *testing.T) uplink.Endpoint {
				n = start(t, t.TempDir())
				n.makeStream(t, testStream, "weir.>", nil)
				file = write(t, filepath.Join(t.TempDir(), "password"), "sesame")
				n.config.PasswordFile = file
				return n.Connect(t, "a")
			},
			Heal: func(t *testing.T) { write(t, file, rig.NATSSecret) }},
		{Name: "stream at its max_bytes", Want: []string{testStream, "maximum bytes exceeded", "max_bytes"},
			Dial: func(t *testing.T) uplink.Endpoint {
				n = start(t, t.TempDir())
				n.makeStream(t, testStream, "weir.>", map[string]any{"discard": "new", "max_bytes": 200})
				return n.Connect(t, "a")
			},
			Heal: func(t *testing.T) {
				n.changeStream(t, testStream, "weir.>", map[string]any{"discard": "new", "max_bytes": 1 << 20})
			}},
		{Name: "stream at its max_msgs, atomic batches", Want: []string{testStream, "maximum messages exceeded", "max_msgs"},
			Dial: func(t *testing.T) uplink.Endpoint {
				n = start(t, t.TempDir())
				n.makeStream(t, testStream, "weir.>", map[string]any{"discard": "new", "max_msgs": 3, "allow_atomic": true}) // the opening and two rows
				return n.Connect(t, "a")
			},
			Heal: func(t *testing.T) {
				n.changeStream(t, testStream, "weir.>", map[string]any{"discard": "new", "max_msgs": -1, "allow_atomic": true})
			}},
		{Name: "JetStream at its max_file_store", Want: []string{"insufficient", "max_file_store"},
			Dial: func(t *testing.T) uplink.Endpoint {
				n = start(t, t.TempDir(), "max_file_store: 1MB")
				n.makeStream(t, testStream, "weir.>", nil)
				n.makeStream(t, "BALLAST", "ballast.>", nil)
				fill(t, n, 2<<20)
				return n.Connect(t, "a")
			},
			Heal: func(t *testing.T) { uplinktest.Must(t, n.DropStream("BALLAST")) }},
		{Name: "full disk", Want: []string{"weir.gw-1.p-1.out", "no answer", "disk"}, Rows: 100, Tries: 5, Timeout: time.Second,
			Dial: func(t *testing.T) uplink.Endpoint {
				small := filepath.Join(t.TempDir(), "small")
				drain = uplinktest.SmallDisk(t, small, 4<<20)
				drain() // first it has room
				n = start(t, small, "max_file_store: 1GB")
				n.makeStream(t, testStream, "weir.>", nil)
				uplinktest.Must(t, rig.FillDisk(small))
				return n.Connect(t, "a")
			},
			Heal: func(t *testing.T) { n.Kill(); drain(); uplinktest.Must(t, n.Start()) }},
	}
	bad = append(bad, uplinktest.Secured{CA: "give its CA in ca",
		Server: func(t *testing.T) string {
			n = start(t, t.TempDir())
			n.makeStream(t, testStream, "weir.>", nil)
			return n.Addr
		},
		Greet: greetTLS,
		Dial: func(t *testing.T, addr, ca string) uplink.Endpoint {
			n.config.URL, n.config.CAFile, n.config.Dates = "tls://"+addr, ca, uplinktest.Dates
			return n.Connect(t, "a")
		}}.Certificates()...)
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}

// greetTLS passes the server's INFO on, with the demand for TLS in it.
func greetTLS(client, server net.Conn) error {
	var line []byte
	for b := make([]byte, 1); !bytes.HasSuffix(line, []byte("\r\n")); {
		if _, err := server.Read(b); err != nil {
			return err
		}
		line = append(line, b...)
	}
	var info map[string]any
	if err := json.Unmarshal(bytes.TrimPrefix(line, []byte("INFO ")), &info); err != nil {
		return err
	}
	info["tls_required"] = true
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(client, "INFO %s\r\n", text)
	return err
}
