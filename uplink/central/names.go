package central

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirstream/weir/uplink/bucket"
)

// SHA is the sha256 of an object as it is stored; the zero value is none.
type SHA [32]byte

// String is 64 hexadecimal digits.
func (s SHA) String() string { return hex.EncodeToString(s[:]) }

// UUID names a pipeline.
type UUID [16]byte

// String is 32 hexadecimal digits.
func (u UUID) String() string { return hex.EncodeToString(u[:]) }

// Kind is the second element of an object's name.
type Kind string

// The kinds of objects.
const (
	KindClaim    Kind = "claim"
	KindHead     Kind = "head"
	KindManifest Kind = "manifest"
	KindIndex    Kind = "index"
	KindObject   Kind = "object"
	KindRecords  Kind = "records"
)

// Names makes the names of a gateway's objects (FORMAT.md); Parse is the inverse.
type Names struct{ dir string }

// NamesOf gives those of a gateway.
func NamesOf(gateway string) Names { return Names{bucket.Escape(gateway) + "/"} }

// Dir is what all names of the gateway begin with, with its slash.
func (n Names) Dir() string { return n.dir }

// Claim is the name of the claim.
func (n Names) Claim() string { return n.dir + string(KindClaim) }

// Head is the name of a pipeline's head.
func (n Names) Head(id UUID) string { return n.dir + string(KindHead) + "/" + id.String() }

// All is what all names of a kind begin with, with its slash.
func (n Names) All(k Kind) string { return n.dir + string(k) + "/" }

// Of is the name of an object that is called by its sha.
func (n Names) Of(k Kind, s SHA) string { return n.dir + string(k) + "/" + s.String() }

// AllRecords is what the names of all shipped records of a journal begin with, with its slash.
func (n Names) AllRecords(journal string) string {
	return n.All(KindRecords) + bucket.Escape(journal) + "/"
}

// Records is the name of a piece of a journal whose last record is at a position.
func (n Names) Records(journal string, last uint64, s SHA) string {
	return fmt.Sprintf("%s%016x-%s", n.AllRecords(journal), last, s)
}

// Name is what Parse finds in one.
type Name struct {
	Gateway  string
	Kind     Kind
	Pipeline UUID   // of a head
	SHA      SHA    // of a manifest, index, object or records
	Journal  string // of records
	Last     uint64 // of records: the position of the last one
}

// Parse takes a name apart. It refuses all that Names does not make.
func Parse(name string) (n Name, err error) {
	bad := fmt.Errorf("name %q is not one of a central store", name)
	parts := strings.Split(name, "/")
	gateway, ok := bucket.Unescape(parts[0])
	if !ok || gateway == "" || len(parts) < 2 || bucket.Escape(gateway) != parts[0] {
		return n, bad
	}
	n.Gateway, n.Kind = gateway, Kind(parts[1])
	into := n.SHA[:]
	switch {
	case n.Kind == KindClaim && len(parts) == 2:
		return n, nil
	case n.Kind == KindRecords && len(parts) == 4:
		if !n.parseRecords(parts[2], parts[3]) {
			return Name{}, bad
		}
		return n, nil
	case len(parts) != 3:
		return n, bad
	case n.Kind == KindHead:
		into = n.Pipeline[:]
	case n.Kind != KindManifest && n.Kind != KindIndex && n.Kind != KindObject:
		return n, bad
	}
	if len(parts[2]) != 2*len(into) || strings.ToLower(parts[2]) != parts[2] {
		return n, bad
	}
	if _, err := hex.Decode(into, []byte(parts[2])); err != nil {
		return n, bad
	}
	return n, nil
}

func (n *Name) parseRecords(journal, piece string) (ok bool) {
	if n.Journal, ok = bucket.Unescape(journal); !ok || n.Journal == "" || bucket.Escape(n.Journal) != journal {
		return false
	}
	last, sha, ok := strings.Cut(piece, "-")
	if !ok || len(last) != 16 || len(sha) != 2*len(n.SHA) || strings.ToLower(piece) != piece {
		return false
	}
	if _, err := hex.Decode(n.SHA[:], []byte(sha)); err != nil {
		return false
	}
	var err error
	n.Last, err = strconv.ParseUint(last, 16, 64)
	return err == nil
}
