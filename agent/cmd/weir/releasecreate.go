//go:build !nocentral

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
)

// releaseFlags say what is in a release.
type releaseFlags struct {
	*fleetFlags
	version     string
	artifacts   []string
	compat      string
	secure      uint64
	leastSecure uint64
	chunkBytes  int64
	again       bool
	to          string
}

func releaseCreateCommand(f *fleetFlags) *cobra.Command {
	r := &releaseFlags{fleetFlags: f}
	c := &cobra.Command{
		Use: "create --version VERSION --artifact ARCH=FILE...", Short: "Sign a release, and upload its programs", Args: usageArgs(cobra.NoArgs),
		Long: `Cuts each program into pieces, uploads those that the store has not (a repeat goes on where it was cut off), and then the manifest, signed by the role release.
What a program can read is asked of the program itself (weir compat --json) where it runs on this machine's processor; for another one compat=FILE, or --compat for all, has what it printed elsewhere.`,
		Example: `  weir release create --version 1.4.0 --artifact arm64=bin/weir-linux-arm64,compat=compat.json --key release-1.key
  weir release create --version 1.4.0 --artifact arm64=bin/weir-linux-arm64 --key release-1.key --store none --to release.json   # for weir upgrade, without a fleet`,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c) },
	}
	g := c.Flags()
	g.StringVar(&r.version, "version", "", "as the programs' weir version prints it")
	g.StringArrayVar(&r.artifacts, "artifact", nil, "ARCH=FILE[,boards=A+B][,backend=rauc][,compat=FILE]; may be repeated")
	g.StringVar(&r.compat, "compat", "", "what weir compat --json of the programs prints")
	g.Uint64Var(&r.secure, "secure-version", 0, "rises with each release that closes a hole")
	g.Uint64Var(&r.leastSecure, "min-secure-version", 0, "a gateway that has committed this release takes none below that secure version")
	g.Int64Var(&r.chunkBytes, "chunk-bytes", document.ChunkBytesDefault, "size of a piece")
	g.BoolVar(&r.again, "again", false, "upload all pieces, also those that are there")
	g.StringVar(&r.to, "to", "", "write the signed manifest there instead of publishing it: for others to sign (weir keys sign, weir fleet publish), or with --store none for weir upgrade on a gateway; then nothing is uploaded")
	return f.signs(c)
}

// part is an artifact and its file.
type part struct {
	path  string
	calls string // the version that it calls itself; "": it was not asked, or says none
	document.Artifact
}

// misnamed tells that gateways will refuse the program, since it calls itself otherwise than its release; "": they will not, as far as is known.
func (p *part) misnamed(version string) string {
	if p.calls == "" || p.calls == version {
		return ""
	}
	return fmt.Sprintf("%s says that it is version %s, and the release says %s: each gateway will refuse it. Build it with VERSION=%s, or give --version %s", p.path, p.calls, version, version, p.calls)
}

func (r *releaseFlags) run(c *cobra.Command) error {
	if r.version == "" || len(r.artifacts) == 0 {
		return usageError{errors.New("--version and --artifact are needed")}
	}
	signers, err := r.signers(c)
	if err != nil {
		return err
	}
	fl, err := r.place(c)
	if err != nil {
		return err
	}
	m := &document.Release{Fleet: fl.trust.Fleet(), Version: r.version, CreatedMs: time.Now().UnixMilli(), SecureVersion: r.secure, MinSecureVersion: r.leastSecure}
	var parts []part
	for _, text := range r.artifacts {
		p, err := r.part(c.Context(), text)
		if err != nil {
			return usageError{fmt.Errorf("--artifact %s: %w", text, err)}
		}
		parts = append(parts, p)
		m.Artifacts = append(m.Artifacts, p.Artifact)
	}
	payload, err := m.Encode()
	if err != nil {
		return usageError{err}
	}
	e, err := fl.seal(c.Context(), signed.TypeRelease, payload, signers) // before anything is sent: a key that may not sign is found here
	if err != nil {
		return err
	}
	at := time.UnixMilli(m.CreatedMs).UTC()
	row := &releaseRow{Release: shaOfPayload(payload), Version: m.Version, Created: &at, is: m}
	if r.output != "json" {
		printRelease(c, row)
	}
	for _, p := range parts {
		if text := p.misnamed(m.Version); text != "" {
			fmt.Fprintln(c.ErrOrStderr(), "warning: "+text)
		}
	}
	if fl.Bucket == nil {
		if err := writeDocument(c, r.to, e); err != nil {
			return err
		}
		return r.say(c, map[string]string{"to": r.to, "release": row.Release, "version": m.Version}, func() {
			fmt.Fprintf(c.ErrOrStderr(), "written to %s, and nothing is uploaded: on the gateway weir upgrade FILE --release %s\n", r.to, filepath.Base(r.to))
		})
	}
	if err := r.confirm(c, "Upload and publish it?"); err != nil {
		return err
	}
	for i := range parts {
		if err := r.upload(c, fl, &parts[i]); err != nil {
			return fmt.Errorf("%s: %w; a repeat goes on from here", parts[i].path, err)
		}
	}
	if r.to != "" {
		return r.written(c, r.to, row.Release, 0, e)
	}
	if _, err := fl.PublishRelease(c.Context(), fl.trust, e); err != nil {
		return err
	}
	return r.say(c, map[string]string{"release": row.Release, "version": m.Version}, func() { fmt.Fprintf(c.OutOrStdout(), "published: %s\n", row.Release) })
}

// noStore is the store of who has none: a release that is carried to the gateway with its program (weir upgrade FILE).
const noStore = "none"

// place is the store that the release goes to; its Bucket is nil: none.
func (r *releaseFlags) place(c *cobra.Command) (*fleet, error) {
	if r.store != noStore {
		return r.open(c)
	}
	if r.to == "" {
		return nil, usageError{errors.New("--store none goes with --to FILE: without a store the manifest has to go somewhere")}
	}
	trust, err := r.believed(c.Context())
	return &fleet{trust: trust}, err
}

func (r *releaseFlags) upload(c *cobra.Command, fl *fleet, p *part) error {
	file, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer file.Close()
	tell := r.pieces(c, filepath.Base(p.path))
	u, err := fl.Upload(c.Context(), file, &p.Artifact, r.again, func(u depot.Upload) {
		if tell != nil {
			tell(u.Done, u.Pieces)
		}
	})
	if err == nil && r.output != "json" {
		fmt.Fprintf(c.OutOrStdout(), "%s: %d pieces, %d of them were there, %d bytes sent\n", filepath.Base(p.path), u.Pieces, u.There, u.Bytes)
	}
	return err
}

// part reads ARCH=FILE[,name=value…].
func (r *releaseFlags) part(ctx context.Context, text string) (p part, err error) {
	options := strings.Split(text, ",")
	arch, path, is := strings.Cut(options[0], "=")
	if !is || !slices.Contains(document.Arches, arch) || path == "" {
		return p, fmt.Errorf("want ARCH=FILE, with arm64, arm or amd64 as ARCH")
	}
	compat, backend, boards := r.compat, "self", []string(nil)
	for _, o := range options[1:] {
		name, value, _ := strings.Cut(o, "=")
		switch {
		case value == "":
			return p, fmt.Errorf("%q: want name=value", o)
		case name == "boards":
			boards = strings.Split(value, "+")
		case name == "backend":
			backend = value
		case name == "compat":
			compat = value
		default:
			return p, fmt.Errorf("%q: want boards, backend or compat", name)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return p, err
	}
	defer file.Close()
	if backend == "self" {
		if err := isProgram(file, arch); err != nil {
			return p, err
		}
	}
	if p.Artifact, err = depot.Cut(file, r.chunkBytes); err != nil {
		return p, err
	}
	p.path, p.Backend, p.Arch, p.Boards = path, backend, arch, boards
	if p.Compat, err = compatOf(ctx, path, arch, backend, compat); err == nil && compat == "" {
		p.calls = ownVersion(ctx, path)
	}
	return p, err
}

// machines are ELF's names of processors (e_machine), by what Go calls them.
var machines = map[string]byte{"arm64": 183, "arm": 40, "amd64": 62}

// isProgram looks at the head of an ELF file, and goes back to its beginning.
func isProgram(file io.ReadSeeker, arch string) error {
	var head [20]byte
	if _, err := io.ReadFull(file, head[:]); err != nil || !bytes.HasPrefix(head[:], []byte("\x7fELF")) {
		return errors.New("it is no program (ELF); a bundle is given with backend=rauc")
	}
	if head[18] != machines[arch] || head[19] != 0 {
		return fmt.Errorf("it is a program for another processor than %s", arch)
	}
	_, err := file.Seek(0, io.SeekStart)
	return err
}

const compatWithin = 30 * time.Second

// compatOf is what the program can read: as a file has it, else as it says itself.
func compatOf(ctx context.Context, path, arch, backend, file string) (is document.Compat, err error) {
	var b []byte
	switch {
	case file != "":
		if b, err = readSmall(ctx, file); err != nil {
			return is, err
		}
	case backend == "self" && arch == runtime.GOARCH:
		ctx, cancel := context.WithTimeout(ctx, compatWithin)
		defer cancel()
		if path, err = filepath.Abs(path); err != nil {
			return is, err
		}
		run := exec.CommandContext(ctx, path, "compat", "--json")
		run.WaitDelay = 10 * time.Second // a busy machine takes its time
		if b, err = run.Output(); err != nil {
			return is, fmt.Errorf("ask it what it can read (compat --json): %w", err)
		}
	default:
		return is, errors.New("nothing says what it can read: run it with compat --json where it runs, and give what it prints by compat=FILE")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&is); err != nil {
		return is, fmt.Errorf("what weir compat --json printed: %w", err)
	}
	if len(is.Formats) == 0 || len(is.State) == 0 {
		return is, errors.New("what weir compat --json printed names no formats or no state")
	}
	return is, nil
}

// ownVersion is the version that a program of this machine's processor calls itself; "": it says none.
func ownVersion(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, compatWithin)
	defer cancel()
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	run := exec.CommandContext(ctx, path, "version", "-o", "json")
	run.WaitDelay = 10 * time.Second
	b, err := run.Output()
	var is struct {
		Version string `json:"version"`
	}
	if err != nil || json.Unmarshal(b, &is) != nil {
		return ""
	}
	return document.Clean(is.Version, 256)
}

func shaOfPayload(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}
