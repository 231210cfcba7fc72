package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var one = uplink.Incarnation{Major: 1}

var tool = sync.OnceValues(func() (string, error) { return rig.Tool("nats-server") })

// server is nats-server with JetStream in a directory of its own.
type server struct {
	dir, addr, path string
	child           *rig.Child
	config          Config
}

const (
	testStream = "RESULTS"
	testUser   = "gateway"
	testSecret = "secret-1"
)

// startServer starts a server with one stream; more is added to the stream's settings.
func startServer(t testing.TB, more map[string]any) *server {
	t.Helper()
	path, err := tool()
	if err != nil {
		t.Skipf("NOT TESTED against nats-server: %v", err)
	}
	n := &server{dir: t.TempDir(), path: path}
	if n.addr, err = rig.FreeAddr(); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(n.dir, "password")
	if err := os.WriteFile(password, []byte(testSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.config = Default()
	n.config.URL, n.config.Stream, n.config.User, n.config.PasswordFile = "nats://"+n.addr, testStream, testUser, password
	settings := fmt.Sprintf("listen: %q\njetstream: {store_dir: %q}\nmax_payload: 65536\nauthorization: {user: %s, password: %q}\n", n.addr, filepath.Join(n.dir, "js"), testUser, testSecret)
	if err := os.WriteFile(filepath.Join(n.dir, "conf"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	t.Cleanup(func() { n.child.Kill() })
	n.makeStream(t, testStream, "weir.>", more)
	return n
}

func (n *server) start(t testing.TB) {
	t.Helper()
	var err error
	n.child, err = rig.StartChild(filepath.Join(n.dir, "log"), nil, n.path, "-c", filepath.Join(n.dir, "conf"))
	if err == nil {
		err = rig.WaitListening(n.addr, 20*time.Second)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
		t.Fatalf("%v\n%s", err, log)
	}
}

// Restart is kill -9.
func (n *server) Restart(t testing.TB) {
	n.child.Kill()
	n.start(t)
}

func (n *server) Connect(t testing.TB, board string) uplink.Endpoint {
	c := n.config
	c.Board = board
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request asks the server as a tool would.
func (n *server) request(t testing.TB, subject string, question map[string]any, to any) {
	t.Helper()
	conn, err := nats.Connect(n.config.URL, nats.UserInfo(testUser, testSecret))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	q, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	var answer *nats.Msg
	for range 100 { // JetStream is up a little later than the port
		if answer, err = conn.Request(subject, q, 10*time.Second); !errors.Is(err, nats.ErrNoResponders) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer.Data, to); err != nil {
		t.Fatal(err)
	}
}

func (n *server) makeStream(t testing.TB, name, subjects string, more map[string]any) {
	t.Helper()
	settings := map[string]any{"name": name, "subjects": []string{subjects}, "storage": "file", "retention": "limits", "max_age": 0, "num_replicas": 1,
		"duplicate_window": int64(100 * time.Millisecond)}
	for k, v := range more {
		settings[k] = v
	}
	var answer struct{ Error *apiError }
	n.request(t, "$JS.API.STREAM.CREATE."+name, settings, &answer)
	if answer.Error != nil {
		t.Fatal(answer.Error)
	}
}

// Held reads every message of the subject in the stream's own order.
func (n *server) Held(t testing.TB, s uplink.Stream) (held []uplinktest.Held) {
	t.Helper()
	subject := n.config.Subject + "." + escape(s.Gateway) + "." + escape(s.Pipeline) + "." + escape(s.Sink)
	conn, err := nats.Connect(n.config.URL, nats.UserInfo(testUser, testSecret))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for next := uint64(1); ; {
		q, err := json.Marshal(map[string]any{"seq": next, "next_by_subj": subject})
		if err != nil {
			t.Fatal(err)
		}
		m, err := conn.Request("$JS.API.STREAM.MSG.GET."+testStream, q, 10*time.Second)
		if errors.Is(err, nats.ErrNoResponders) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Error   *apiError `json:"error"`
			Message struct {
				Seq  uint64 `json:"seq"`
				Hdrs []byte `json:"hdrs"`
				Data []byte `json:"data"`
			} `json:"message"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Error != nil {
			if answer.Error.ErrCode != codeNoMessage {
				t.Fatal(answer.Error)
			}
			return held
		}
		next = answer.Message.Seq + 1
		h, err := nats.DecodeHeadersMsg(answer.Message.Hdrs)
		if err != nil {
			t.Fatal(err)
		}
		st, err := readState(h, answer.Message.Seq)
		if err != nil {
			t.Fatal(err)
		}
		one := uplinktest.Held{Generation: st.Generation, Seq: st.Seq, Last: st.Seq, Payload: string(bytes.Clone(answer.Message.Data))}
		switch h.Get(headerKind) {
		case kindOpen:
			continue
		case kindGap:
			one.Gap = true
			if _, err := fmt.Sscan(h.Get(headerSeq), &one.Seq); err != nil {
				t.Fatal(err)
			}
		}
		held = append(held, one)
	}
}
