//go:build !nocentral

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/signed"
)

func keysVerifyCommand(o *options) *cobra.Command {
	var roots []string
	var oldAfter time.Duration
	c := &cobra.Command{
		Use: "verify FILE --root ROOT.json", Short: "Tell what a document is, who signed it, and whether a gateway would take it", Args: usageArgs(cobra.ExactArgs(1)),
		Long: `Verifies as a gateway does, up to what only a gateway knows: serials that it has seen, its channel, board and clock. --root is the root document that is believed; a chain of them is given by repeating it,
in order. Without --root a root document is only asked whether it agrees with itself, and anything else is described. Exit code 0: it would be taken; 1: not.`,
		RunE: func(c *cobra.Command, args []string) error {
			trust, err := readTrust(c.Context(), roots)
			if err != nil {
				return err
			}
			e, b, err := readEnvelope(c.Context(), args[0])
			if err != nil {
				return err
			}
			i := inspect(args[0], e, trust)
			i.judge(b, e, trust)
			i.age(e, trust, time.Now(), oldAfter)
			if err := o.tell(c, i); err != nil {
				return err
			}
			if i.Problem != "" {
				return errors.New(i.Problem)
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&roots, "root", nil, "the root document that is believed; a chain: repeated, in order")
	c.Flags().DurationVar(&oldAfter, "old-after", 365*24*time.Hour, "warn of a root that is older")
	return c
}

// inspection is what is told of an envelope.
type inspection struct {
	File       string         `json:"file"`
	Type       string         `json:"type"`
	Fleet      string         `json:"fleet,omitempty"`
	What       string         `json:"what"`
	Created    *time.Time     `json:"created,omitempty"`
	SHA256     string         `json:"sha256"` // of the payload
	Signatures []inspectedKey `json:"signatures"`
	Counts     []count        `json:"counts,omitempty"`
	Verified   bool           `json:"verified"`
	Problem    string         `json:"problem,omitempty"`
	Warnings   []string       `json:"warnings,omitempty"`
}

// inspectedKey is a signature, and what it is worth.
type inspectedKey struct {
	Key   signed.KeyID `json:"key"`
	Name  string       `json:"name,omitempty"`
	Role  signed.Role  `json:"role,omitempty"`
	Worth string       `json:"worth"` // good, wrong, does not count
}

// count is how many signatures of a role there are, and how many one root wants.
type count struct {
	Role signed.Role `json:"role"`
	Root uint64      `json:"root"`
	Have int         `json:"have"`
	Need int         `json:"need"`
}

// inspect describes an envelope by the root that is trusted, nil: none, and a root by itself as well. It judges nothing.
func inspect(path string, e *signed.Envelope, trust *signed.Trust) *inspection {
	sum := sha256.Sum256(e.Payload)
	i := &inspection{File: path, Type: e.Type, SHA256: hex.EncodeToString(sum[:]), Signatures: []inspectedKey{}}
	if d, err := describe(e); err != nil {
		i.What = "cannot be read: " + err.Error()
	} else {
		at := time.UnixMilli(d.created).UTC()
		i.Fleet, i.What, i.Created = d.fleet, d.text, &at
	}
	var roots []*signed.Root
	if trust != nil {
		roots = append(roots, trust.Root())
	}
	if e.Type == signed.TypeRoot && (trust == nil || !bytes.Equal(trust.Envelope(), e.Bytes())) {
		if own, err := signed.DecodeRoot(e.Payload); err == nil {
			roots = append(roots, own)
		}
	}
	worth, role := map[signed.KeyID]string{}, signed.RoleOf(e.Type)
	for _, r := range roots {
		good, wrong := r.Signed(e, role)
		for _, id := range good {
			worth[id] = "good"
		}
		for _, id := range wrong {
			worth[id] = "wrong"
		}
		if g := r.Of(role); g != nil {
			i.Counts = append(i.Counts, count{role, r.Version, len(good), g.Threshold})
		}
	}
	for _, s := range e.Signatures {
		k := inspectedKey{Key: s.Key, Worth: worth[s.Key]}
		if k.Worth == "" {
			k.Worth = "does not count"
		}
		for _, r := range roots {
			if k.Role == "" {
				k.Role, k.Name = r.RoleOf(s.Key), r.NameOf(s.Key)
			}
		}
		i.Signatures = append(i.Signatures, k)
	}
	return i
}

// judge decides as a gateway does.
func (i *inspection) judge(b []byte, e *signed.Envelope, trust *signed.Trust) {
	err := func() error {
		switch {
		case e.Type == signed.TypeRoot && trust == nil:
			_, err := signed.NewTrust(b)
			return err
		case e.Type == signed.TypeRoot && bytes.Equal(b, trust.Envelope()):
			return nil
		case e.Type == signed.TypeRoot:
			return trust.Advance(b)
		case trust == nil:
			return errors.New("no --root: nothing says whose signatures count")
		}
		if _, err := trust.Verify(b, e.Type); err != nil {
			return err
		}
		if _, err := describe(e); err != nil {
			return err
		}
		if i.Fleet != trust.Fleet() {
			return fmt.Errorf("it is of the fleet %q, the root is of %q", i.Fleet, trust.Fleet())
		}
		return nil
	}()
	if i.Verified = err == nil; err != nil {
		i.Problem = fmt.Sprintf("%s: refused: %v", i.File, err)
	}
	if e.Type == signed.TypeRoot && trust == nil && err == nil {
		i.Warnings = append(i.Warnings, "it agrees with itself, which anybody can have a root do: compare its sha256 with what its makers say")
	}
}

// age warns of a root that is old: keys get lost and stolen, and people leave.
func (i *inspection) age(e *signed.Envelope, trust *signed.Trust, now time.Time, oldAfter time.Duration) {
	var r *signed.Root
	switch {
	case trust != nil:
		r = trust.Root() // a next one that was verified has become it
	case e.Type == signed.TypeRoot:
		r, _ = signed.DecodeRoot(e.Payload)
	}
	if r == nil {
		return
	}
	switch age := now.Sub(time.UnixMilli(r.CreatedMs)); {
	case age > oldAfter:
		i.Warnings = append(i.Warnings, fmt.Sprintf("root %d is %d days old: see who still has its keys, and make the next one (weir keys rotate)", r.Version, int(age.Hours()/24)))
	case age < -24*time.Hour:
		i.Warnings = append(i.Warnings, fmt.Sprintf("root %d is of %s, which is to come: this machine's clock is wrong, or that of its makers was", r.Version, date(r.CreatedMs)))
	}
}

// tell prints an inspection.
func (o *options) tell(c *cobra.Command, i *inspection) error {
	if o.output == "json" {
		return json.NewEncoder(c.OutOrStdout()).Encode(i)
	}
	i.print(c.OutOrStdout())
	for _, w := range i.Warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning: "+w)
	}
	return nil
}

func (i *inspection) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s", i.File, i.What)
	if i.Fleet != "" {
		fmt.Fprintf(w, ", fleet %s, made %s", i.Fleet, i.Created.Format("2006-01-02 15:04"))
	}
	fmt.Fprintf(w, "\n  sha256 %s\n", i.SHA256)
	for _, s := range i.Signatures {
		role := ""
		if s.Role != "" {
			role = ", " + string(s.Role)
		}
		fmt.Fprintf(w, "  signed by %s%s: %s\n", label(s.Name, s.Key), role, s.Worth)
	}
	for _, n := range i.Counts {
		missing := ""
		if n.Have < n.Need {
			missing = fmt.Sprintf(": %d missing", n.Need-n.Have)
		}
		fmt.Fprintf(w, "  %d of %d signatures of the role %s in root %d%s\n", n.Have, n.Need, n.Role, n.Root, missing)
	}
	if slices.ContainsFunc(i.Signatures, func(s inspectedKey) bool { return s.Worth == "wrong" }) {
		fmt.Fprintln(w, "  a wrong signature by a key that counts: every gateway refuses it")
	}
	if i.Verified {
		fmt.Fprintln(w, "verified")
	}
}
