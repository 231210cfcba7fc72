package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestItNamesWhatIsLinked: this test's own binary, beside what the runtime says of it.
func TestItNamesWhatIsLinked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, again bytes.Buffer
	if err := write(&first, self); err != nil {
		t.Fatal(err)
	}
	if err := write(&again, self); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Errorf("the same binary gives other bytes: %v", err)
	}
	var b bom
	if err := json.Unmarshal(first.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	info, _ := debug.ReadBuildInfo()
	if len(b.Components) != len(info.Deps)+1 || len(b.Metadata.Component.Hashes) != 1 {
		t.Errorf("%d components, linked are %d and the standard library", len(b.Components), len(info.Deps))
	}
	refs := map[string]bool{}
	for _, c := range append(b.Components, b.Metadata.Component) {
		if refs[c.Ref] || c.Name == "" || !strings.HasPrefix(c.Purl, "pkg:golang/") {
			t.Errorf("component %+v has no name of its own", c)
		}
		refs[c.Ref] = true
	}
}

// TestTheHelperIsMadeOfLittle: what runs as root in front of each start has one module of others, and its bill names it.
func TestTheHelperIsMadeOfLittle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir-boot")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", file, "github.com/weirstream/weir/agent/cmd/weir-boot")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var text bytes.Buffer
	if err := write(&text, file); err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range b.Components {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	if want := []string{"golang.org/x/sys", "std"}; !slices.Equal(names, want) {
		t.Errorf("weir-boot is made of %q, want %q", names, want)
	}
}

func TestModules(t *testing.T) {
	for _, c := range []struct {
		m                   debug.Module
		name, purl, replace string
	}{
		{debug.Module{Path: "example.com/a/b", Version: "v1.2.3+incompatible", Sum: "h1:x="}, "example.com/a/b", "pkg:golang/example.com/a/b@v1.2.3%2Bincompatible", ""},
		{debug.Module{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1"}},
			"example.com/fork", "pkg:golang/example.com/fork@v1.0.1", "example.com/a@v1.0.0"},
		{debug.Module{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{Path: "./own/slim", Version: "(devel)"}},
			"example.com/main/own/slim", "pkg:golang/example.com/main#own/slim", "example.com/a@v1.0.0"},
	} {
		got := module(&c.m, "example.com/main")
		if got.Name != c.name || got.Purl != c.purl || got.Ref != c.purl {
			t.Errorf("%+v becomes %+v", c.m, got)
		}
		if c.replace != "" && (len(got.Properties) == 0 || got.Properties[0] != property{"go:replaces", c.replace}) {
			t.Errorf("%+v does not tell what it replaces: %+v", c.m, got)
		}
	}
	if _, err := os.Stat("main.go"); err != nil {
		t.Fatal(err)
	}
	if err := write(&bytes.Buffer{}, "main.go"); err == nil {
		t.Error("a file that is no binary has no build info")
	}
}
