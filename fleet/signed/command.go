package signed

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Command has a program sign: the way to a hardware module, a smart card, or a key behind a passphrase. Line is run by /bin/sh -c with the bytes to be signed (Message) on its input and
// prints the signature's 64 bytes in base64. What it says on its error output goes to Say. WEIR_KEY has the name of the key, WEIR_TYPE the document's type.
type Command struct {
	Line string
	Key  ed25519.PublicKey
	Say  io.Writer // nil: only an error has it
}

const (
	commandOutputMost = 4096
	commandEndsWithin = 5 * time.Second // after its context has ended
)

// ID is the key's name.
func (c *Command) ID() KeyID { return IDOf(c.Key) }

// Public is the public key, as it was given: the command is not asked.
func (c *Command) Public() ed25519.PublicKey { return c.Key }

// Sign runs the command. It ends with ctx.
func (c *Command) Sign(ctx context.Context, typ string, payload []byte) ([]byte, error) {
	run := exec.CommandContext(ctx, "/bin/sh", "-c", c.Line)
	run.WaitDelay = commandEndsWithin // its children may hold the pipes
	run.Env = append(os.Environ(), "WEIR_KEY="+string(c.ID()), "WEIR_TYPE="+typ)
	run.Stdin = bytes.NewReader(Message(typ, payload))
	out, said := &bounded{most: commandOutputMost}, &bounded{most: commandOutputMost}
	run.Stdout, run.Stderr = out, said
	if c.Say != nil {
		run.Stderr = io.MultiWriter(said, c.Say)
	}
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("command %q: %w%s", c.Line, errors.Join(ctx.Err(), err), said.tail())
	}
	if out.over {
		return nil, fmt.Errorf("command %q: %w: it printed more than %d bytes, want one signature in base64", c.Line, ErrSignature, commandOutputMost)
	}
	sig, err := decode64(strings.TrimSpace(string(out.kept)), planted{})
	switch {
	case len(out.kept) == 0:
		return nil, fmt.Errorf("command %q: %w: it printed nothing, want a signature in base64%s", c.Line, ErrSignature, said.tail())
	case err != nil:
		return nil, fmt.Errorf("command %q: %w: it printed %.40q…: %w", c.Line, ErrSignature, out.kept, err)
	case len(sig) != ed25519.SignatureSize:
		return nil, fmt.Errorf("command %q: %w: %d bytes, want the %d of an ed25519 signature", c.Line, ErrSignature, len(sig), ed25519.SignatureSize)
	}
	return sig, nil
}

// bounded keeps the first bytes that are written to it, and passes over the others.
type bounded struct {
	kept []byte
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.most-len(b.kept))
	b.over = b.over || keep < len(p)
	b.kept = append(b.kept, p[:keep]...)
	return len(p), nil
}

// tail is what a command said, behind an error.
func (b *bounded) tail() string {
	text := strings.TrimSpace(string(b.kept))
	if text == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(text, "?")
}
