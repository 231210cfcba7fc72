//go:build !nocentral

package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/tests/rig"
)

// TestDocumentsIntoWhatIsNoFile: a pipe or a device that a document is to go to is written to, and stays what it is.
func TestDocumentsIntoWhatIsNoFile(t *testing.T) {
	root, err := rig.FleetRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := signed.Parse(root)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte, 1)
	go func() { // ends with the writer
		f, err := os.Open(pipe)
		if err != nil {
			read <- nil
			return
		}
		defer f.Close()
		b, _ := io.ReadAll(f)
		read <- b
	}()
	c := &cobra.Command{}
	c.SetContext(t.Context())
	if err := writeDocument(c, pipe, e); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Fatalf("the pipe is %v, %v", info, err)
	}
	if got := <-read; string(got) != string(e.Bytes()) {
		t.Errorf("%d bytes came through, want %d", len(got), len(e.Bytes()))
	}
	if err := writeDocument(c, t.TempDir(), e); err == nil {
		t.Error("a directory took a document")
	}
}
