package rig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// User of a test's NATS server.
const (
	NATSUser   = "gateway"
	NATSSecret = "secret-1"
)

// NATS is nats-server with JetStream in a directory of its own, on a free loopback port. Its streams survive Kill.
type NATS struct {
	Addr string
	// PasswordFile holds the user's password as sinks read it.
	PasswordFile string

	dir, path string
	child     *Child
}

var natsTool = sync.OnceValues(func() (string, error) { return Tool("nats-server") })

// NATSPayloadMax is the server's max_payload.
const NATSPayloadMax = 64 << 10

// StartNATS starts a server that keeps its streams in dir; jetstream are more of its settings of JetStream. The error is ErrNoTool where it cannot be
// built. The caller kills it.
func StartNATS(dir string, jetstream ...string) (*NATS, error) {
	path, err := natsTool()
	if err != nil {
		return nil, err
	}
	n := &NATS{PasswordFile: filepath.Join(dir, "password"), dir: dir, path: path}
	if n.Addr, err = FreeAddr(); err != nil {
		return nil, err
	}
	settings := fmt.Sprintf("listen: %q\njetstream: {store_dir: %q, %s}\nmax_payload: %d\nauthorization: {user: %s, password: %q, timeout: %d}\n", n.Addr, filepath.Join(dir, "js"), strings.Join(jetstream, ", "),
		NATSPayloadMax, NATSUser, NATSSecret, Patience/time.Second)
	err = errors.Join(os.WriteFile(n.PasswordFile, []byte(NATSSecret+"\n"), 0o600), os.WriteFile(filepath.Join(dir, "conf"), []byte(settings), 0o600))
	if err != nil {
		return nil, fmt.Errorf("configure nats-server: %w", err)
	}
	return n, n.Start()
}

// Start starts the server again after Kill, on the same port, and waits until JetStream answers.
func (n *NATS) Start() (err error) {
	n.child, err = StartChild(filepath.Join(n.dir, "log"), nil, n.path, "-c", filepath.Join(n.dir, "conf"))
	if err != nil {
		return err
	}
	if err = WaitListening(n.Addr, n.child); err == nil {
		err = n.Request("$JS.API.INFO", nil, nil)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
		n.child.Kill()
		return fmt.Errorf("start nats-server: %w\n%s", err, log)
	}
	return nil
}

// Kill is kill -9.
func (n *NATS) Kill() { n.child.Kill() }

// Dial connects as a tool would. The caller closes the connection.
func (n *NATS) Dial() (*nats.Conn, error) {
	return nats.Connect("nats://"+n.Addr, nats.UserInfo(NATSUser, NATSSecret), nats.NoReconnect(), nats.Timeout(natsAnswer))
}

// talk runs a conversation, and again from its start on another connection while the server does not answer: JetStream is up a little later than the
// port, and a server that is killed takes the question with it. It ends at an answer, also at one that refuses.
func (n *NATS) talk(f func(*nats.Conn) error) error {
	for deadline := time.Now().Add(Patience); ; time.Sleep(pollEvery) {
		conn, err := n.Dial()
		if err == nil {
			err = f(conn)
			conn.Close()
		}
		var refused *natsError
		if err == nil || errors.As(err, &refused) && refused.Code != natsNotUp || time.Now().After(deadline) {
			return err
		}
	}
}

// natsAnswer is how long a question waits before it is asked on another connection.
const natsAnswer = Patience / 4

// Request asks the server as a tool would, until it answers; question and answer are JSON, the answer may be nil.
func (n *NATS) Request(subject string, question, answer any) error {
	return n.talk(func(conn *nats.Conn) error { return ask(conn, subject, question, answer) })
}

func ask(conn *nats.Conn, subject string, question, answer any) error {
	q, err := json.Marshal(question)
	if err != nil {
		return err
	}
	m, err := conn.Request(subject, q, natsAnswer)
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	var failed struct {
		Error *natsError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err == nil && failed.Error != nil {
		return fmt.Errorf("ask %s: %w", subject, failed.Error)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(m.Data, answer)
}

type natsError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *natsError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.Code) }

const (
	natsNoMessage = 10037 // nothing at that sequence or behind it
	natsNotUp     = 10008 // JetStream is not there yet
)

// MakeStream makes a stream in a file that keeps everything, with a duplicate window of 100 ms; more is added to its settings.
func (n *NATS) MakeStream(name, subjects string, more map[string]any) error {
	return n.stream("CREATE", name, subjects, more)
}

// ChangeStream gives a stream that is there the settings that MakeStream would.
func (n *NATS) ChangeStream(name, subjects string, more map[string]any) error {
	return n.stream("UPDATE", name, subjects, more)
}

// DropStream removes a stream with all that it has.
func (n *NATS) DropStream(name string) error {
	conn, err := n.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := conn.Request("$JS.API.STREAM.DELETE."+name, nil, 10*time.Second)
	if err == nil && bytes.Contains(m.Data, []byte(`"error"`)) {
		err = fmt.Errorf("remove stream %s: %s", name, m.Data)
	}
	return err
}

func (n *NATS) stream(verb, name, subjects string, more map[string]any) error {
	settings := map[string]any{"name": name, "subjects": []string{subjects}, "storage": "file", "retention": "limits", "max_age": 0, "num_replicas": 1,
		"duplicate_window": int64(NATSDuplicateWindow)}
	for k, v := range more {
		settings[k] = v
	}
	return n.Request("$JS.API.STREAM."+verb+"."+name, settings, nil)
}

// NATSDuplicateWindow is that of MakeStream: outages longer than it need no patience.
const NATSDuplicateWindow = 100 * time.Millisecond

// NATSMessage is a message as a stream keeps it.
type NATSMessage struct {
	Seq     uint64
	Subject string
	Header  nats.Header
	Data    []byte
}

// Messages gives every message of a subject (which may have wildcards) in the stream's own order.
func (n *NATS) Messages(stream, subject string) (all []NATSMessage, err error) {
	err = n.talk(func(conn *nats.Conn) (err error) {
		all, err = messages(conn, stream, subject)
		return err
	})
	return all, err
}

func messages(conn *nats.Conn, stream, subject string) (all []NATSMessage, err error) {
	for next := uint64(1); ; {
		var answer struct {
			Message struct {
				Seq     uint64 `json:"seq"`
				Subject string `json:"subject"`
				Hdrs    []byte `json:"hdrs"`
				Data    []byte `json:"data"`
			} `json:"message"`
		}
		err := ask(conn, "$JS.API.STREAM.MSG.GET."+stream, map[string]any{"seq": next, "next_by_subj": subject}, &answer)
		var none *natsError
		if errors.As(err, &none) && none.Code == natsNoMessage {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		m := answer.Message
		h, err := nats.DecodeHeadersMsg(m.Hdrs)
		if err != nil {
			return nil, fmt.Errorf("message %d of %s: %w", m.Seq, stream, err)
		}
		all = append(all, NATSMessage{Seq: m.Seq, Subject: m.Subject, Header: h, Data: m.Data})
		next = m.Seq + 1
	}
}
