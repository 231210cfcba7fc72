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
	// kill is kill -9 of the server, and its start; nothing where the sink writes here.
	kill() error
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
	{"file", func(_ *testing.T, dir string) (end, error) { return &fileEnd{dir: filepath.Join(dir, "files")}, nil }},
	{"directory", func(_ *testing.T, dir string) (end, error) {
		return &directoryEnd{dir: filepath.Join(dir, "files", "archive")}, nil
	}},
	{"s3", startS3End},
	{"nats", startNATSEnd},
	{"postgres", startPostgresEnd},
}

// here is the part of an end that is no server.
type here struct{}

func (here) kill() error      { return nil }
func (here) line() *rig.Proxy { return nil }

// server is the part of an end that is one, behind a line.
type server struct {
	proxy   *rig.Proxy
	restart func() error
}

func (s *server) kill() error      { return s.restart() }
func (s *server) line() *rig.Proxy { return s.proxy }

func newServer(t *testing.T, addr string, kill func(), start func() error) (server, error) {
	p, err := rig.NewProxy(addr)
	if err != nil {
		return server{}, err
	}
	t.Cleanup(func() { p.Close() })
	return server{p, func() error { kill(); return start() }}, nil
}

type fileEnd struct {
	here
	dir string
}

func (e *fileEnd) target(uid string) string { return "file: {path: " + uid + ".jsonl}" }

func (e *fileEnd) held(uid string) ([]ends.Record, error) {
	b, err := os.ReadFile(filepath.Join(e.dir, uid+".jsonl"))
	if err != nil {
		return nil, err
	}
	return ends.Lines(b)
}

func (e *fileEnd) harm(uid string) error {
	name := filepath.Join(e.dir, uid+".jsonl")
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	from := bytes.IndexByte(b, '\n') + 1
	to := from + bytes.IndexByte(b[from:], '\n') + 1
	return os.WriteFile(name, slices.Delete(b, from, to), 0o600)
}

type directoryEnd struct {
	here
	dir string
}

func (e *directoryEnd) target(string) string { return "objects: {directory: archive, timeout: 5s}" }

func (e *directoryEnd) held(uid string) ([]ends.Record, error) {
	objects, err := ends.Tree(e.dir)
	if err != nil {
		return nil, err
	}
	return ends.Objects(objects, uid)
}

func (e *directoryEnd) harm(uid string) error {
	objects, err := ends.Tree(e.dir)
	for name := range objects {
		if ends.ObjectOf(name, uid) && len(objects[name]) > 20 { // a void one has no records
			return os.Remove(name)
		}
	}
	return errors.Join(err, errors.New("no object to harm"))
}
