package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/weirstream/weir/agent" // the program is built from it: a change there must make cached results stale
	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

var weir string // the program under test, built by TestMain

func TestMain(m *testing.M) { os.Exit(rig.RunWithWeir(m, &weir)) }

// open unpacks an image into a site of the present build.
func open(t *testing.T, name string) (*site, *manifest, []message) {
	t.Helper()
	var m manifest
	s := newSite(t, weir)
	s.must(readJSON(filepath.Join(imagesDir, name+".json"), &m))
	s.must(unpack(filepath.Join(imagesDir, name+".tar.zst"), s.dir))
	all, err := readMessages(s.path(messagesFile))
	s.must(err)
	s.openReceiver()
	return s, &m, all
}

func eachImage(t *testing.T, f func(t *testing.T, name string)) {
	names, err := imageNames()
	if err != nil || len(names) == 0 {
		t.Fatal("there are no images", err)
	}
	for _, n := range names {
		t.Run(n, func(t *testing.T) { f(t, n) })
	}
}

// TestImagesAreRestored: the present build goes on where an earlier one stopped or died, and the upstream holds what an undisturbed run gives.
func TestImagesAreRestored(t *testing.T) {
	eachImage(t, func(t *testing.T, name string) {
		s, m, all := open(t, name)
		half := (m.Before + len(all)) / 2
		s.start()
		s.send(all[m.Before:half])
		s.must(s.agent.Stop(patience))
		s.start() // from a checkpoint that the present build wrote over the old one
		s.send(all[half:])
		s.eventually("the ledger balances", func(st *api.Status) bool { return st.Pipelines[0].Balanced })
		s.delivered()
		s.compare(m, s.wanted())
	})
}

// zscoreOfVersion1 is the commit of images in which the state of zscore is of the version before blocks.
const zscoreOfVersion1 = "dcf811a"

// TestSavepointsAreRestored: a savepoint of an earlier build, where it was taken and on another machine.
func TestSavepointsAreRestored(t *testing.T) {
	eachImage(t, func(t *testing.T, name string) {
		s, m, all := open(t, name)
		if m.Savepoint == "" {
			t.Skip("there is none in it")
		}
		file := filepath.Join(t.TempDir(), "saved.savepoint")
		b, err := os.ReadFile(s.path(m.Savepoint))
		s.must(err)
		s.must(os.WriteFile(file, b, 0o644))
		s.start()
		if told := s.run("plan", s.path("run.yaml"), file); strings.HasPrefix(m.Commit, zscoreOfVersion1) {
			for step, want := range map[string]string{"odd": `keep `, "odder": `migrate .*from version 1 to 2$`} { // blocks begin above 64 samples
				if !regexp.MustCompile(`(?m)^` + step + ` +` + want).MatchString(told) {
					t.Errorf("the plan does not say %q of %s:\n%s", want, step, told)
				}
			}
		}
		s.run("savepoint", "restore", pipeline, file)
		s.send(all[m.Before:])
		s.delivered()
		s.compare(m, s.wanted())

		other, _, _ := open(t, name)
		want := other.wanted()
		for _, gone := range []string{"state", "files"} {
			s.must(os.RemoveAll(other.path(gone)))
		}
		confirmed := other.confirmed(file)
		for uid, n := range confirmed {
			if want[uid] == nil { // dead letters
				continue
			}
			want[uid] = want[uid][min(n, len(want[uid])):]
		}
		other.start()
		other.run("savepoint", "restore", pipeline, file, "--accept-gap")
		other.send(all[m.SavedBefore:])
		other.delivered()
		other.compare(m, want)
	})
}

func (s *site) wanted() (want map[string][]json.RawMessage) {
	s.t.Helper()
	s.must(readJSON(s.path(wantFile), &want))
	return want
}

// confirmed tells how many results of each sink the upstream held when a savepoint was taken: they are not in it.
func (s *site) confirmed(file string) map[string]int {
	s.t.Helper()
	s.configure()
	var told struct {
		Sinks []struct {
			UID       string
			Confirmed int
		}
	}
	s.must(json.Unmarshal([]byte(s.run("savepoint", "inspect", file, "-o", "json")), &told))
	all := map[string]int{}
	for _, k := range told.Sinks {
		all[k.UID] = k.Confirmed
	}
	return all
}

// compare demands the wanted results, each once and in order.
func (s *site) compare(m *manifest, want map[string][]json.RawMessage) {
	s.t.Helper()
	got := s.results()
	if len(want) < 10 || len(got) != len(want) {
		s.t.Fatalf("%d sinks, want %d", len(got), len(want))
	}
	for _, k := range s.sinks() {
		if slices.Contains(m.Clocked, k.uid) {
			continue
		}
		if d := difference(got[k.uid], want[k.uid]); d != "" {
			s.t.Errorf("sink %s: %s", k.uid, d)
		}
	}
}

func difference(got, want []json.RawMessage) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%d results, want %d, the next is %s", len(got), len(want), want[i])
		case i >= len(want):
			return fmt.Sprintf("%d results, want %d, more is %s", len(got), len(want), got[i])
		case !bytes.Equal(compact(got[i]), compact(want[i])):
			return fmt.Sprintf("result %d is %s, want %s", i+1, got[i], compact(want[i]))
		}
	}
	return ""
}

func compact(b []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return b
	}
	return out.Bytes()
}

func (s *site) version() string {
	s.t.Helper()
	st, err := api.Dial(s.path("s")).Status(context.WithoutCancel(s.t.Context()))
	s.must(err)
	return st.Version
}

// TestImagesStaySmall: they are kept for ever.
func TestImagesStaySmall(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(imagesDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 1e6 {
		t.Errorf("the images have %d bytes, want 1 MB at most", total)
	}
}
