package systemd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// journald is the journal's socket.
type journald struct{ *net.UnixConn }

func newJournald(t *testing.T) (journald, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "s")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return journald{c}, name
}

// next is the next record's fields; as journald does it takes one from a sealed file, too.
func (j journald) next(t *testing.T) (fields map[string]string, fromFile bool) {
	t.Helper()
	j.SetReadDeadline(time.Now().Add(time.Minute))
	b, oob := make([]byte, 1<<20), make([]byte, 1024)
	n, oobn, _, _, err := j.ReadMsgUnix(b, oob)
	if err != nil {
		t.Fatal(err)
	}
	b = b[:n]
	if oobn > 0 {
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			t.Fatal(err)
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fds[0]), "record")
		defer f.Close()
		if seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || seals&unix.F_SEAL_WRITE == 0 {
			t.Errorf("the file is not sealed: journald refuses it (%v)", err)
		}
		if b, err = io.ReadAll(io.NewSectionReader(f, 0, 1<<30)); err != nil {
			t.Fatal(err)
		}
		fromFile = true
	}
	return parseRecord(t, b), fromFile
}

func parseRecord(t *testing.T, b []byte) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for len(b) > 0 {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			t.Fatalf("the record ends within a line: %q", b)
		}
		name, value, whole := strings.Cut(string(line), "=")
		if b = rest; !whole {
			n := binary.LittleEndian.Uint64(rest)
			value, b = string(rest[8:8+n]), rest[8+n+1:]
		}
		if _, twice := fields[name]; twice {
			t.Errorf("the field %s comes twice", name)
		}
		fields[name] = value
	}
	return fields
}

// TestJournalFields: what a line is about is in fields that journalctl can ask for.
func TestJournalFields(t *testing.T) {
	j, name := newJournald(t)
	h, err := NewJournal(name, slog.LevelInfo, slog.DiscardHandler)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(h).With("pipeline", "cold")
	log.Debug("not this")
	log.WithGroup("g").Error("ship failed", "sink", "cloud", "error", errors.New("two\nlines"), "n", 7, slog.Group("in", "k", time.Second), "9_lives", true, "message", "m", "é", "dropped?")
	f, fromFile := j.next(t)
	want := map[string]string{
		"PRIORITY": "3", "SYSLOG_IDENTIFIER": "weir", "EVENT": "ship failed", "PIPELINE": "cold", "G_SINK": "cloud", "G_ERROR": "two\nlines", "G_N": "7", "G_IN_K": "1s", "G_9_LIVES": "true", "G_MESSAGE": "m", "G___": "dropped?",
		"MESSAGE": `ship failed pipeline=cold g.sink=cloud g.error="two\nlines" g.n=7 g.in.k=1s g.9_lives=true g.message=m g.é=dropped?`,
	}
	for k, v := range want {
		if f[k] != v {
			t.Errorf("%s=%q, want %q", k, f[k], v)
		}
	}
	if len(f) != len(want) || fromFile {
		t.Errorf("%d fields, want %d; in a file: %v; %v", len(f), len(want), fromFile, f)
	}
	for l, p := range map[slog.Level]string{slog.LevelInfo: "6", slog.LevelWarn: "4"} {
		log.Log(t.Context(), l, "x", "message", "m", "1", "one")
		if f, _ := j.next(t); f["PRIORITY"] != p || f["WEIR_MESSAGE"] != "m" || len(f) != 6 {
			t.Errorf("%v", f)
		}
	}
}

// TestJournalTakesLargeRecords: a plan's difference or a stack is larger than a datagram may be.
func TestJournalTakesLargeRecords(t *testing.T) {
	j, name := newJournald(t)
	h, err := NewJournal(name, slog.LevelInfo, slog.DiscardHandler)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("stack\n", 300_000)
	slog.New(h).Error("panic", "stack", long)
	if f, fromFile := j.next(t); f["STACK"] != long || !fromFile {
		t.Errorf("%d bytes of %d, in a file: %v", len(f["STACK"]), len(long), fromFile)
	}
}

// TestJournalFallsBack: a journal that is gone takes no line with it.
func TestJournalFallsBack(t *testing.T) {
	j, name := newJournald(t)
	var text bytes.Buffer
	h, err := NewJournal(name, slog.LevelInfo, slog.NewTextHandler(&text, nil))
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	os.Remove(name)
	slog.New(h).With("pipeline", "cold").Info("goes on", "n", 1)
	if got := text.String(); !strings.Contains(got, `msg="goes on" pipeline=cold n=1`) {
		t.Errorf("%q", got)
	}
	if _, err := NewJournal(name, slog.LevelInfo, slog.DiscardHandler); !errors.Is(err, ErrNoJournal) {
		t.Errorf("%v", err)
	}
}

// TestJournalConnected: only the very stream that systemd made counts.
func TestJournalConnected(t *testing.T) {
	var st unix.Stat_t
	if err := unix.Fstat(2, &st); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stream string
		want   bool
	}{{"", false}, {"1", false}, {"1:2", false}, {streamOf(st.Dev, st.Ino), true}, {streamOf(st.Dev, st.Ino+1), false}} {
		t.Setenv("JOURNAL_STREAM", c.stream)
		if got := JournalConnected(); got != c.want {
			t.Errorf("%q: %v", c.stream, got)
		}
	}
}

// FuzzFieldName: what journald does not take as a name never leaves.
func FuzzFieldName(f *testing.F) {
	for _, s := range []string{"pipeline", "_x", "9", "MESSAGE", "", "a=b\nMESSAGE=c", strings.Repeat("x", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		name := fieldName(key)
		if len(name) > 64 {
			t.Errorf("%d bytes", len(name))
		}
		for i, c := range []byte(name) {
			if !(c >= 'A' && c <= 'Z' || i > 0 && (c == '_' || c >= '0' && c <= '9')) {
				t.Fatalf("%q has %q", name, c)
			}
		}
	})
}

func streamOf(dev, inode uint64) string { return fmt.Sprintf("%d:%d", dev, inode) }
