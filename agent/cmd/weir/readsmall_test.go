//go:build !nocentral

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReadsEndWithASignal: a command that waits for what does not come, from a terminal or from a pipe that nobody writes to, or holds open and is silent, ends when it is told to.
func TestReadsEndWithASignal(t *testing.T) {
	cli := newCLI(t, cliConfig)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close() // ends what still reads
	for _, held := range []bool{false, true} {
		if held { // what still opens it goes on, and the others wait for a word
			w, err := os.OpenFile(pipe, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
		}
		for _, args := range [][]string{
			{"selftest", "--stdin"}, {"state", "import", filepath.Join(t.TempDir(), "new.weirsave")}, {"replay", "--pipeline", cli.config, "--input", pipe}, {"replay", "--pipeline", cli.config, "--input", "-"},
			{"keys", "verify", pipe, "--root", pipe}, {"upgrade", "x", "--release", pipe}, {"fleet", "status", "--store", "file:///nosuch/store", "--root", pipe},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			cmd := root()
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			cmd.SetIn(read)
			cmd.SetArgs(append(args, "-c", cli.config))
			ended := make(chan error, 1)
			go func() { ended <- cmd.ExecuteContext(ctx) }()
			time.AfterFunc(50*time.Millisecond, cancel) // as main does at a signal; one that is early ends it as well
			select {
			case err := <-ended:
				if err == nil || !errors.Is(err, context.Canceled) {
					t.Errorf("%q: %v", args, err)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("%q waits on", args)
			}
			cancel()
		}
	}
}

// TestHeardGivesAll: what is read in pieces is what was written, with its end, or its error.
func TestHeardGivesAll(t *testing.T) {
	text := strings.Repeat("a line of a recording\n", 20_000)
	read, write := io.Pipe()
	why := errors.New("a bad disk")
	go func() {
		_, _ = io.WriteString(write, text)
		write.CloseWithError(why)
	}()
	got, err := io.ReadAll(heard(t.Context(), read))
	if string(got) != text || !errors.Is(err, why) {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
	if got, err := io.ReadAll(heard(t.Context(), strings.NewReader(text))); string(got) != text || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
}
