package signed

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// write puts a file into a directory of the test.
func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandSigns(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("NOT TESTED HERE: no openssl, which is to sign")
	}
	key := write(t, "k.pem", FormatPrivate(ed25519.PrivateKey(keyOf("d1"))))
	// openssl 3.0 signs files only, whose length it knows.
	line := `f=$(mktemp) && trap 'rm -f $f' EXIT && cat > $f && test "$(head -n 1 $f)" = "weir document 1" && test $WEIR_TYPE = rollout && openssl pkeyutl -sign -rawin -inkey ` + key + ` -in $f | base64 -w 0`
	e, err := Seal(t.Context(), TypeRollout, []byte(`{"some":"thing"}`), &Command{Line: line, Key: keyOf("d1").Public()}, keyOf("d2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trust(t).Verify(e.Bytes(), TypeRollout); err != nil {
		t.Error(err)
	}
}

func TestCommandFails(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"it fails":             {"echo no card >&2; exit 3", "exit status 3: no card"},
		"it is not there":      {"/nonexistent/hsm", "exit status 127"},
		"it prints nothing":    {"cat > /dev/null; echo is the card in >&2", "it printed nothing, want a signature in base64: is the card in"},
		"it prints words":      {"echo 'PIN wrong'", `it printed "PIN wrong`},
		"it prints hex":        {"head -c 64 /dev/zero | od -An -v -tx1 | tr -d ' \\n'", "96 bytes, want the 64"},
		"it prints for long":   {"yes | head -c 1000000", "printed more than"},
		"it signs other bytes": {"printf '%088d' 0 | sed 's/..$/==/; s/0==$/A==/'", "has another key, or signed other bytes"},
	} {
		_, err := Seal(t.Context(), TypeRollout, []byte("{}"), &Command{Line: c.line, Key: keyOf("d1").Public()})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCommandEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	fifo := filepath.Join(t.TempDir(), "begun")
	if err := exec.CommandContext(t.Context(), "mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		f, err := os.Open(fifo) // until the command has begun
		if err == nil {
			f.Close()
		}
	}()
	_, err := Seal(ctx, TypeRollout, []byte("{}"), &Command{Line: "echo > " + fifo + "; exec sleep 1000", Key: keyOf("d1").Public()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// liar says another name than its key's.
type liar struct{ KeySigner }

func (liar) ID() KeyID { return keyOf("d2").ID() }

func TestSignerThatLies(t *testing.T) {
	if _, err := Seal(t.Context(), TypeRollout, []byte("{}"), liar{keyOf("d1")}); !errors.Is(err, ErrKey) {
		t.Errorf("%v", err)
	}
	if _, err := Seal(t.Context(), "nonsense", []byte("{}")); !errors.Is(err, ErrForm) {
		t.Errorf("an unknown type: %v", err)
	}
}
