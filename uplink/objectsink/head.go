package objectsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/fence"
	"github.com/weirstream/weir/uplink/wire"
)

const (
	headName    = "_head.json"
	headVersion = 1
)

// head is the stream's progress and fence. FORMAT.md has its form.
type head struct {
	fence.State
	Claims uint64
	Writer string
	Claim  *claim
}

// claim is the one put that may be under way.
type claim struct {
	Generation  uint64
	First, Last uint64
	Chain       uint64
	Name        string // below the stream's directory
}

// headJSON is the head as it lies in the store.
type headJSON struct {
	Version     int        `json:"version"`
	Stream      string     `json:"stream"`
	Incarnation string     `json:"incarnation"`
	Board       string     `json:"board"`
	Opened      uint64     `json:"opened"`
	Generation  uint64     `json:"generation"`
	Seq         uint64     `json:"seq"`
	Chain       string     `json:"chain"`
	Claims      uint64     `json:"claims"`
	Writer      string     `json:"writer"`
	Claim       *claimJSON `json:"claim,omitempty"`
}

type claimJSON struct {
	Generation uint64 `json:"generation"`
	First      uint64 `json:"first"`
	Last       uint64 `json:"last"`
	Chain      string `json:"chain"`
	Name       string `json:"name"`
}

func (h *head) encode(s uplink.Stream) ([]byte, error) {
	j := headJSON{Version: headVersion, Stream: s.String(), Incarnation: h.Incarnation.String(), Board: h.Board, Opened: h.Opened,
		Generation: h.Generation, Seq: h.Seq, Chain: wire.FormatChain(h.Chain), Claims: h.Claims, Writer: h.Writer}
	if c := h.Claim; c != nil {
		j.Claim = &claimJSON{c.Generation, c.First, c.Last, wire.FormatChain(c.Chain), c.Name}
	}
	b, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("encode head: %w", err)
	}
	return append(b, '\n'), nil
}

// decodeHead refuses what weir did not write for this stream.
func decodeHead(b []byte, s uplink.Stream) (h head, err error) {
	var j headJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return h, fmt.Errorf("%w: %.80q: %w", ErrForeign, b, err)
	}
	if j.Version > headVersion {
		return h, fmt.Errorf("%w: version %d, this weir knows %d", ErrForeign, j.Version, headVersion)
	}
	if j.Version < 1 || j.Stream != s.String() {
		return h, fmt.Errorf("%w: it is of stream %q, version %d", ErrForeign, j.Stream, j.Version)
	}
	h = head{State: fence.State{Board: j.Board, Opened: j.Opened, Generation: j.Generation, Seq: j.Seq}, Claims: j.Claims, Writer: j.Writer}
	var errInc, errChain, errClaim error
	h.Incarnation, errInc = wire.ParseIncarnation(j.Incarnation)
	h.Chain, errChain = wire.ParseChain(j.Chain)
	if c := j.Claim; c != nil {
		h.Claim = &claim{Generation: c.Generation, First: c.First, Last: c.Last, Name: c.Name}
		h.Claim.Chain, errClaim = wire.ParseChain(c.Chain)
		// The name is put together anew: a head must not lead a put elsewhere.
		if n, ok := parseName(c.Name); !ok || n.generation != c.Generation || n.first != c.First || n.last != c.Last {
			errClaim = fmt.Errorf("claim has the name %.120q", c.Name)
		}
	}
	if err := errors.Join(errInc, errChain, errClaim); err != nil {
		return h, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return h, nil
}

// readHead gives the head and its version, "" when there is none.
func (s *Sink) readHead(ctx context.Context) (head, string, error) {
	b, version, err := s.store.Get(ctx, s.dir+headName)
	if errors.Is(err, bucket.ErrNotFound) {
		return head{}, "", nil
	}
	if err != nil {
		return head{}, "", fmt.Errorf("read head: %w", err)
	}
	h, err := decodeHead(b, s.opening.Stream)
	return h, version, err
}

// rebuild takes the run from the list of objects, when the head is gone: the end of the unbroken run from the lowest
// sequence of the highest generation on (consumers remove old ones). Without objects it is an empty head.
func (s *Sink) rebuild(ctx context.Context) (h head, err error) {
	var all []bucket.Object
	err = bucket.Each(ctx, s.store, s.dir, func(o bucket.Object) error {
		o.Name = strings.TrimPrefix(o.Name, s.dir)
		all = append(all, o)
		return nil
	})
	if err != nil {
		return h, fmt.Errorf("list objects: %w", err)
	}
	run := runOf(all, int64(len(s.void)))
	if s.plant.highest {
		run.seq = run.highest
	}
	h.Generation, h.Seq, h.Claims = run.generation, run.seq, run.claims
	if run.generation > 0 {
		s.config.Logger.Error("head object was gone: the run is taken from the objects that are there, the fence is lost", "stream", s.opening.Stream.String(),
			"generation", h.Generation, "seq", h.Seq)
	}
	return h, nil
}
