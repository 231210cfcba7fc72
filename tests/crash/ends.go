package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/weirstream/weir/tests/rig"
)

// end is the far end of a kind of sink in TestAllSinks. A new kind is one more of these and a line in ends.
type end interface {
	// target is the sink's target in the config, in braces; uid begins with win- where it takes windows.
	target(uid string) string
	// kill is kill -9 of the server, and its start; nothing where the sink writes here.
	kill() error
	// line leads to the server; nil where the sink writes here.
	line() *rig.Proxy
	// held reads what is there of a sink by the far end's own means: SQL, the stream, listed objects, lines of a file. A record that is there twice
	// comes twice; a gap is an error.
	held(uid string) ([]record, error)
	// harm spoils what is there of a sink: one record is gone. The oracle must find that.
	harm(uid string) error
}

// record is one at a far end. seq is 0 where the far end does not keep it.
type record struct {
	seq  uint64
	data []byte
}

// ends are the kinds of sinks besides http, whose far end each run has anyway. dir is the run's directory.
var ends = []struct {
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

// lineOf is a record in a file or an object.
type lineOf struct {
	Seq  uint64          `json:"seq"`
	Data json.RawMessage `json:"data"`
	Gap  string          `json:"gap"`
	Open string          `json:"open"`
}

// records takes lines apart; what opens a file is none.
func records(text []byte) (all []record, err error) {
	for line := range bytes.Lines(text) {
		var l lineOf
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("line %.80q: %w", line, err)
		}
		if l.Open != "" {
			continue
		}
		if l.Gap != "" || l.Data == nil {
			return nil, fmt.Errorf("line %.80q is no row", line)
		}
		all = append(all, record{l.Seq, l.Data})
	}
	return all, nil
}

type fileEnd struct {
	here
	dir string
}

func (e *fileEnd) target(uid string) string { return "file: {path: " + uid + ".jsonl}" }

func (e *fileEnd) held(uid string) ([]record, error) {
	b, err := os.ReadFile(filepath.Join(e.dir, uid+".jsonl"))
	if err != nil {
		return nil, err
	}
	return records(b)
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

// objectRecords reads the objects of one sink: names are PREFIX/GATEWAY/PIPELINE/SINK/dt=…/hr=…/….
func objectRecords(objects map[string][]byte, uid string) (all []record, err error) {
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer unpack.Close()
	for name, body := range objects {
		if !ofSink(name, uid) {
			continue
		}
		text, err := unpack.DecodeAll(body, nil)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", name, err)
		}
		rows, err := records(text)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", name, err)
		}
		all = append(all, rows...)
	}
	slices.SortFunc(all, func(a, b record) int { return int(int64(a.seq - b.seq)) })
	return all, nil
}

func ofSink(name, uid string) bool {
	return strings.Contains(name, "/"+uid+"/dt=") && strings.HasSuffix(name, ".jsonl.zst")
}

type directoryEnd struct {
	here
	dir string
}

func (e *directoryEnd) target(string) string { return "objects: {directory: archive, timeout: 5s}" }

func (e *directoryEnd) objects() (map[string][]byte, error) {
	all := map[string][]byte{}
	return all, filepath.WalkDir(e.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		all[filepath.ToSlash(path)], err = os.ReadFile(path)
		return err
	})
}

func (e *directoryEnd) held(uid string) ([]record, error) {
	objects, err := e.objects()
	if err != nil {
		return nil, err
	}
	return objectRecords(objects, uid)
}

func (e *directoryEnd) harm(uid string) error {
	objects, err := e.objects()
	for name := range objects {
		if ofSink(name, uid) && len(objects[name]) > 20 { // a void one has no records
			return os.Remove(name)
		}
	}
	return errors.Join(err, errors.New("no object to harm"))
}
