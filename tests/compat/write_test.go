package compat

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

var (
	writeName = flag.String("write", "", "write new images whose names begin with this (make compat-image)")
	writeWith = flag.String("writer", "", "with -write: the program that writes, a build of -commit")
	commit    = flag.String("commit", "", "with -write: the commit that -writer is built from")
)

// newImage says how a kind of image is made.
type newImage struct {
	kind, about              string
	store, backend, parallel string
	savepoint, upstream      bool // a savepoint is taken on the way; the upstream answers until then
	kill                     bool // the agent dies; else it stops in order
}

var newImages = []newImage{
	{kind: "log", about: "stopped in order; every result of the http sinks waits in the outbox; a savepoint", store: "log", backend: "memory", parallel: "1", savepoint: true},
	{kind: "bbolt", about: "killed behind a checkpoint, three instances; the upstream held half of the results", store: "bbolt", backend: "memory", parallel: "3", upstream: true, kill: true},
	{kind: "pebble", about: "killed behind a checkpoint, state on flash; the upstream held half of the results", store: "pebble", backend: "pebble", parallel: "1", upstream: true, kill: true},
}

// Messages of a new image: in all, when its checkpoint or savepoint is made, when the image is taken.
const (
	messagesAll, messagesSaved, messagesTaken = 420, 160, 260
)

// silent are sinks whose steps wait for what does not come: their state is in the image, and no result.
var silent = []string{"to-arrived", "to-held", "to-silence"}

// TestWriteImages writes new images. It never runs by itself, and never over an image that is there.
func TestWriteImages(t *testing.T) {
	if *writeName == "" {
		t.Skip("only with -write")
	}
	if *writeWith == "" || *commit == "" {
		t.Fatal("-write needs -writer and -commit")
	}
	for i, n := range newImages {
		name := filepath.Join(imagesDir, *writeName+"-"+n.kind)
		if _, err := os.Stat(name + ".json"); err == nil {
			t.Fatalf("%s is there: images are kept for ever", name)
		}
		n.write(t, name, drawMessages(uint64(i+1), messagesAll))
	}
}

func (n *newImage) config(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("wide.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.NewReplacer("PARALLEL", n.parallel, "BACKEND", n.backend, "STORE", n.store).Replace(string(b)))
}

func (n *newImage) write(t *testing.T, name string, all []message) {
	want := n.uninterrupted(t, all)
	s := newSite(t, *writeWith)
	s.must(os.WriteFile(s.path(configFile), n.config(t), 0o644))
	s.must(writeMessages(s.path(messagesFile), all))
	s.must(writeJSON(s.path(wantFile), want))
	s.openReceiver()
	m := manifest{Commit: *commit, About: n.about, Before: messagesTaken, Clocked: []string{"to-arrived"}}
	s.away.Store(!n.upstream)
	s.start()
	m.Version = s.version()
	s.send(all[:messagesSaved])
	if n.savepoint {
		s.run("savepoint", "create", pipeline, "--name", "saved")
		m.Savepoint, m.SavedBefore = "state/savepoints/saved.savepoint", messagesSaved
	} else {
		_, err := api.Dial(s.path("s")).TriggerCheckpoint(t.Context(), pipeline)
		s.must(err)
	}
	if n.upstream {
		s.eventually("results are delivered", func(st *api.Status) bool {
			for _, k := range st.Pipelines[0].Sinks {
				if k.UID == "to-order" {
					return k.Pending == 0
				}
			}
			return false
		})
		s.away.Store(true)
	}
	s.send(all[messagesSaved:messagesTaken])
	if n.kill {
		s.agent.Kill()
	} else {
		s.must(s.agent.Stop(patience))
	}
	s.must(s.receiver.Close())
	s.must(pack(s.dir, name+".tar.zst", "state", "files", receiverFile, configFile, messagesFile, wantFile))
	s.must(writeJSON(name+".json", m))
}

// uninterrupted gives what a run without a stop makes of the messages.
func (n *newImage) uninterrupted(t *testing.T, all []message) map[string][]json.RawMessage {
	s := newSite(t, *writeWith)
	s.must(os.WriteFile(s.path(configFile), n.config(t), 0o644))
	s.openReceiver()
	s.start()
	s.send(all)
	s.delivered()
	results := s.results()
	for uid, rows := range results {
		if len(rows) == 0 && !slices.Contains(silent, uid) {
			t.Errorf("sink %s says nothing: the messages do not show its step's state", uid)
		}
	}
	return results
}
