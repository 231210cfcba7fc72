package identity

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink"
)

// Record is who this agent is. File state_dir/incarnation, JSON, replaced atomically.
type Record struct {
	Version int    `json:"version"`
	Major   uint32 `json:"major"`
	Minor   uint32 `json:"minor"`
	// Token names the board to upstreams and at the central store. It stays while the board is the same, whatever more becomes readable of it.
	Token string `json:"token"`
	Board Board  `json:"board"`
	// Lineage are the incarnations whose checkpoints are this agent's own (RULES 25), the newest last.
	Lineage []uplink.Incarnation `json:"lineage"`
	// LeastGeneration is where generations of pipelines begin whose numbers another device may have gone on with; 0: anywhere.
	LeastGeneration uint64 `json:"least_generation,omitempty"`
}

const (
	recordFile    = "incarnation"
	recordVersion = 1
	// lineageMax: no checkpoint is retained for so many upgrades and replacements.
	lineageMax = 64
)

// Errors of a record or a fence that is there and cannot be used.
var (
	ErrCorrupt = errors.New("the file is damaged")
	ErrVersion = errors.New("the file was written by a newer weir")
)

// Incarnation is the fencing token.
func (r *Record) Incarnation() uplink.Incarnation {
	return uplink.Incarnation{Major: r.Major, Minor: r.Minor}
}

// generationsPerMajor: generations of major m are m times that and above, but for the first device of a gateway, which counts from 1. So a device that takes
// over begins generations that none before it can have opened, without asking: what it knows of them may be old.
const generationsPerMajor = 1_000_000

// GenerationsOf is where the generations of a major begin that takes over from another device.
func GenerationsOf(major uint32) uint64 { return uint64(major) * generationsPerMajor }

// Load reads the record of a state_dir; nil when there is none. A damaged one is an error: another incarnation by guess would lock this agent out upstream, or
// let two in.
func Load(fsys disk.FS, stateDir string) (*Record, error) {
	b, err := disk.ReadFile(fsys, filepath.Join(stateDir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read incarnation: %w", err)
	}
	r, err := decodeRecord(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; it says which of this gateway's lives this is: restore it from a backup, or set it aside; weir then begins with 1.1, and if an upstream knows a higher one, weir handover retake takes the next", filepath.Join(stateDir, recordFile), err)
	}
	return r, nil
}

func decodeRecord(b []byte) (*Record, error) {
	r := &Record{}
	if err := decode(b, "incarnation", r); err != nil {
		return nil, err
	}
	if r.Version < 1 || r.Major == 0 || r.Token == "" || len(r.Lineage) == 0 || r.Lineage[len(r.Lineage)-1] != r.Incarnation() {
		return nil, fmt.Errorf("%w: it names no incarnation", ErrCorrupt)
	}
	return r, nil
}

// decode reads a file of this package: damaged, or newer, or v.
func decode(b []byte, what string, v any) error {
	err := record.Decode(b, record.Form{What: what, Member: "version", Reads: recordVersion, Newer: ErrVersion}, v)
	if err != nil && !errors.Is(err, ErrVersion) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// Save replaces the record. Durable on return; repeating it is harmless.
func (r *Record) Save(fsys disk.FS, stateDir string) error {
	r.Version = recordVersion
	if err := record.Write(fsys, filepath.Join(stateDir, recordFile), r); err != nil {
		return fmt.Errorf("write incarnation: %w", err)
	}
	return nil
}

// First is the record of a state_dir that has none. A state_dir that an agent of before has worked in was incarnation 1.0 without a board: its upstreams know it so, and
// admit 1.1 of this board.
func First(b Board, used bool) *Record {
	r := &Record{Major: 1, Token: Token(b), Board: b, Lineage: []uplink.Incarnation{{Major: 1}}}
	if used {
		r.raise(uplink.Incarnation{Major: 1, Minor: 1})
	}
	return r
}

// Successor is the record of a new major on a board. r may be nil.
func (r *Record) Successor(b Board, major uint32) *Record {
	n := &Record{Token: Token(b), Board: b}
	if r != nil {
		n.Lineage, n.LeastGeneration = slices.Clone(r.Lineage), r.LeastGeneration
		if r.Board.Compare(b) == Same {
			n.Token = r.Token
		}
	}
	n.raise(uplink.Incarnation{Major: major})
	return n
}

func (r *Record) raise(to uplink.Incarnation) {
	r.Major, r.Minor = to.Major, to.Minor
	r.Lineage = append(r.Lineage, to)
	if n := len(r.Lineage); n > lineageMax {
		r.Lineage = slices.Delete(r.Lineage, 0, n-lineageMax)
	}
}

// Saw takes up what is readable of the same board now, and tells whether that changed anything.
func (r *Record) Saw(b Board) bool {
	if len(b) == 0 || slices.Equal(r.Board, b) {
		return false
	}
	kept := slices.Clone(b)
	for _, old := range r.Board { // what was readable once decides as long as nothing says otherwise
		if (Board{old}).Compare(b) == Unknown {
			kept = append(kept, old)
		}
	}
	slices.SortStableFunc(kept, func(x, y string) int { return rank(x) - rank(y) })
	if slices.Equal(r.Board, kept) {
		return false
	}
	r.Board = kept
	return true
}

func rank(name string) int {
	for i, s := range boardSources {
		if len(name) > len(s.kind) && name[:len(s.kind)] == s.kind {
			return i
		}
	}
	return -1
}

// Token is the surest name; a board without any gets one by chance, so that at least two of them are not taken for one.
func Token(b Board) string {
	if len(b) > 0 {
		return b[0]
	}
	var id [8]byte
	rand.Read(id[:])
	return "random:" + hex.EncodeToString(id[:])
}

// RaiseMinor is the record under a higher minor: another program goes on with the state of this one (RULES 27). Minors that are named leave the lineage: their checkpoints are of a program that was
// gone back from (RULES 25).
func (r *Record) RaiseMinor(minor uint32, without ...uint32) *Record {
	n := *r
	n.Board = slices.Clone(r.Board)
	n.Lineage = slices.DeleteFunc(slices.Clone(r.Lineage), func(i uplink.Incarnation) bool { return i.Major == r.Major && slices.Contains(without, i.Minor) })
	n.raise(uplink.Incarnation{Major: r.Major, Minor: minor})
	return &n
}
