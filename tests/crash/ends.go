package crash

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirstream/weir/tests/ends"
	"github.com/weirstream/weir/tests/rig"
)

// end is the far end of a kind of sink in TestAllSinks. A new kind is one more of these and a line in farEnds.
type end interface {
	// target is the sink's target in the config, in braces; uid begins with win- where it takes windows.
	target(uid string) string
	// kill is kill -9 of the server, and its start (of an MQTT broker a restart); nothing where the sink writes here.
	kill() error
	// down makes it unreachable, up reachable: a server is killed and started, a place here has something in its way.
	down() error
	up() error
	// line leads to the server; nil where the sink writes here.
	line() *rig.Proxy
	// held reads what is there of a sink by the far end's own means: SQL, the stream, listed objects, lines of a file. A record that is there twice
	// comes twice; a gap is an error.
	held(uid string) ([]ends.Record, error)
	// harm spoils what is there of a sink: one record is gone. The oracle must find that.
	harm(uid string) error
}

// farEnds are the kinds of sinks besides http, whose far end each run has anyway. dir is the run's directory.
var farEnds = []struct {
	kind  string
	start func(t *testing.T, dir string) (end, error)
}{
	{"file", func(_ *testing.T, dir string) (end, error) {
		return &fileEnd{here{filepath.Join(dir, "files", "lines")}}, nil
	}},
	{"directory", func(_ *testing.T, dir string) (end, error) {
		return &directoryEnd{here{filepath.Join(dir, "files", "archive")}}, nil
	}},
	{"s3", startS3End},
	{"nats", startNATSEnd},
	{"postgres", startPostgresEnd},
	{"mqtt", startMQTTEnd},
	{"influx", startInfluxEnd},
}

// here is the part of an end that is no server. way is a directory that leads to it.
type here struct{ way string }

func (here) kill() error      { return nil }
func (h here) down() error    { return os.WriteFile(h.way, nil, 0o600) }
func (h here) up() error      { return os.Remove(h.way) }
func (here) line() *rig.Proxy { return nil }

// server is the part of an end that is one, behind a line.
type server struct {
	proxy *rig.Proxy
	end   func()
	start func() error
}

func (s *server) kill() error      { s.end(); return s.start() }
func (s *server) down() error      { s.end(); return nil }
func (s *server) up() error        { return s.start() }
func (s *server) line() *rig.Proxy { return s.proxy }

func newServer(t *testing.T, addr string, kill func(), start func() error) (server, error) {
	p, err := rig.NewProxy(addr)
	if err != nil {
		return server{}, err
	}
	t.Cleanup(func() { p.Close() })
	return server{p, kill, start}, nil
}

type fileEnd struct{ here }

func (e *fileEnd) target(uid string) string { return "file: {path: lines/" + uid + ".jsonl}" }

func (e *fileEnd) held(uid string) ([]ends.Record, error) {
	b, err := os.ReadFile(filepath.Join(e.way, uid+".jsonl"))
	if err != nil {
		return nil, err
	}
	return ends.Lines(b)
}

func (e *fileEnd) harm(uid string) error {
	name := filepath.Join(e.way, uid+".jsonl")
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	from := bytes.IndexByte(b, '\n') + 1
	to := from + bytes.IndexByte(b[from:], '\n') + 1
	return os.WriteFile(name, slices.Delete(b, from, to), 0o600)
}

type directoryEnd struct{ here }

func (e *directoryEnd) target(string) string { return "objects: {directory: archive, timeout: 5s}" }

func (e *directoryEnd) held(uid string) ([]ends.Record, error) {
	objects, err := ends.Tree(e.way)
	if err != nil {
		return nil, err
	}
	return ends.Objects(objects, uid)
}

func (e *directoryEnd) harm(uid string) error {
	objects, err := ends.Tree(e.way)
	for name := range objects {
		if ends.ObjectOf(name, uid) && len(objects[name]) > 20 { // a void one has no records
			return os.Remove(name)
		}
	}
	return errors.Join(err, errors.New("no object to harm"))
}
