package document

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/fleet/strict"
)

// What an artifact may be.
const (
	ChunkBytesMin     = 64 << 10
	ChunkBytesMax     = 4 << 20
	ChunkBytesDefault = 128 << 10
	ChunksMax         = 16384 // as the tag of Chunks has it
	versionsMost      = 1 << 32
)

// Backends and Arches are those that artifacts are for.
var (
	Backends = []string{"self", "rauc"}
	Arches   = []string{"arm64", "arm", "amd64"}
)

func (r *Release) check() error {
	if err := first(named("fleet", r.Fleet), named("version", r.Version), times(r.CreatedMs, 0),
		between("secure_version", r.SecureVersion, 0, uint64(strict.SerialMost))); err != nil {
		return err
	}
	if r.MinSecureVersion > r.SecureVersion {
		return fmt.Errorf("min_secure_version: %d is above secure_version, %d: a gateway that had committed it could not have it again", r.MinSecureVersion, r.SecureVersion)
	}
	if len(r.Artifacts) == 0 {
		return errors.New("artifacts: none")
	}
	for i := range r.Artifacts {
		if err := r.Artifacts[i].check(); err != nil {
			return fmt.Errorf("artifacts[%d]: %w", i, err)
		}
		for j := range i {
			if r.Artifacts[i].rivals(&r.Artifacts[j]) {
				return fmt.Errorf("artifacts[%d] and [%d] are for the same gateways: %s", j, i, r.Artifacts[i].who())
			}
		}
	}
	return nil
}

func (a *Artifact) check() error {
	if err := first(oneOf("backend", a.Backend, Backends), oneOf("arch", a.Arch, Arches), set("boards", a.Boards), digest("sha256", a.SHA256),
		between("chunk_bytes", a.ChunkBytes, ChunkBytesMin, ChunkBytesMax), between("bytes", a.Bytes, 1, ChunksMax*ChunkBytesMax)); err != nil {
		return err
	}
	if want := (a.Bytes + a.ChunkBytes - 1) / a.ChunkBytes; int64(len(a.Chunks)) != want {
		return fmt.Errorf("chunks: %d, but %d bytes in pieces of %d are %d", len(a.Chunks), a.Bytes, a.ChunkBytes, want)
	}
	for i, c := range a.Chunks {
		if err := digest(fmt.Sprintf("chunks[%d]", i), c); err != nil {
			return err
		}
	}
	return first(versions("compat.formats", a.Compat.Formats), versions("compat.state", a.Compat.State))
}

func versions(member string, all map[string]Versions) error {
	for _, kind := range sorted(all) {
		switch v := all[kind]; {
		case strict.Name(kind) != nil:
			return fmt.Errorf("%s: %w", member, strict.Name(kind))
		case v.Most > versionsMost || v.Least > v.Writes || v.Writes > v.Most:
			return fmt.Errorf("%s.%s: reads %d to %d and writes %d; want what it writes among what it reads", member, kind, v.Least, v.Most, v.Writes)
		}
	}
	return nil
}

func sorted[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// rivals tells whether a gateway could not tell which of the two is for it. One that names its board goes before one for any board.
func (a *Artifact) rivals(b *Artifact) bool {
	if a.Backend != b.Backend || a.Arch != b.Arch {
		return false
	}
	if len(a.Boards) == 0 || len(b.Boards) == 0 {
		return len(a.Boards) == len(b.Boards)
	}
	return slices.ContainsFunc(a.Boards, func(board string) bool { return slices.Contains(b.Boards, board) })
}

func (a *Artifact) who() string {
	boards := "any board"
	if n := len(a.Boards); n > 0 {
		boards = strings.Join(a.Boards[:min(n, 8)], ", ")
		if n > 8 {
			boards += fmt.Sprintf(" and %d more", n-8)
		}
	}
	return fmt.Sprintf("%s for %s (%s)", a.Backend, a.Arch, boards)
}

// Length is how many bytes the chunk of that index has: the last one is what is left.
func (a *Artifact) Length(chunk int) int64 {
	return min(a.ChunkBytes, a.Bytes-int64(chunk)*a.ChunkBytes)
}

// ErrNone comes when a release has nothing for a gateway.
var ErrNone = errors.New("nothing for this gateway")

// Find is what the release has for a gateway: what names its board, else what is for any board of that arch. board is "" where none is known. Errors: ErrNone, with what there is.
func (r *Release) Find(backend, arch, board string) (*Artifact, error) {
	var any *Artifact
	for i := range r.Artifacts {
		a := &r.Artifacts[i]
		switch {
		case a.Backend != backend || a.Arch != arch:
		case len(a.Boards) == 0:
			any = a
		case slices.Contains(a.Boards, board):
			return a, nil
		}
	}
	if any != nil {
		return any, nil
	}
	var there []string
	for i := range r.Artifacts {
		there = append(there, r.Artifacts[i].who())
	}
	on := "an unknown board"
	if board != "" {
		on = "the board " + board
	}
	return nil, fmt.Errorf("release %s: %w: want %s for %s on %s, it has %s", r.Version, ErrNone, backend, arch, on, strings.Join(there, "; "))
}
