package savepoint

import (
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

const (
	// Format and Version begin every file.
	Format  = "weir savepoint"
	Version = 1
	// selfDescribed is the tag around the first item (RFC 8949 §3.4.6): tools know the file as CBOR by it.
	selfDescribed = 55799
)

// Head is what a savepoint says of itself. Names in the file are those of the tags, which fields repeats.
type Head struct {
	Format  string `cbor:"format"`
	Version uint64 `cbor:"version"`
	Writer  string `cbor:"writer"` // version of the agent that wrote it; informs

	Gateway  string `cbor:"gateway"`
	Pipeline string `cbor:"pipeline"` // its name in the config
	UUID     []byte `cbor:"uuid"`     // of the pipeline
	Journal  string `cbor:"journal"`  // which journal Position counts in

	Checkpoint uint64 `cbor:"checkpoint"` // whose state it is
	Position   uint64 `cbor:"position"`   // every record up to it is in the state
	Generation uint64 `cbor:"generation"`
	Major      uint64 `cbor:"major"` // incarnation that wrote it
	Minor      uint64 `cbor:"minor"`
	ElapsedNs  int64  `cbor:"elapsed_ns"` // of the agent's life: what timers and TTLs of the state count in
	CreatedMs  int64  `cbor:"created_ms"` // Unix; data, not order
	Trusted    bool   `cbor:"trusted"`    // whether that clock was known to be right
	Drained    bool   `cbor:"drained"`    // the watermark was sent to infinity before: no window is open

	PlanHash []byte  `cbor:"plan_hash"`
	Plan     []byte  `cbor:"plan"` // what the plan means, as text; informs
	Steps    []Step  `cbor:"steps"`
	Tables   []Table `cbor:"tables"`
	Sinks    []Sink  `cbor:"sinks"`
	Ledger   []byte  `cbor:"ledger"` // as in the checkpoint
}

// Step is an operator of the plan that ran.
type Step struct {
	UID       string `cbor:"uid"`
	Kind      string `cbor:"kind"`
	Params    string `cbor:"params"` // canonical: steps with equal params do the same
	Behaviour uint64 `cbor:"behaviour"`
	Stateful  bool   `cbor:"stateful"`
}

// Table is one table of a step, as state.Spec declares it.
type Table struct {
	UID     string `cbor:"uid"`
	Name    string `cbor:"name"`
	Kind    uint64 `cbor:"kind"`
	Type    string `cbor:"type"`
	Version uint64 `cbor:"version"`
	TTLNs   int64  `cbor:"ttl_ns"`
	MaxKeys int64  `cbor:"max_keys"`
}

// Spec is the table's declaration.
func (t *Table) Spec() state.Spec {
	return state.Spec{Name: t.Name, Kind: state.Kind(t.Kind), Type: t.Type, Version: uint16(t.Version), TTL: t.TTLNs, MaxKeys: int(t.MaxKeys)}
}

// TableOf is the table of a step with a declaration.
func TableOf(uid string, s state.Spec) Table {
	return Table{UID: uid, Name: s.Name, Kind: uint64(s.Kind), Type: s.Type, Version: uint64(s.Version), TTLNs: s.TTL, MaxKeys: int64(s.MaxKeys)}
}

// Sink is where a stream stood. Results (Confirmed, Seq] are in the file: upstream did not hold them when it was written.
type Sink struct {
	UID            string `cbor:"uid"`
	Generation     uint64 `cbor:"generation"`
	Seq            uint64 `cbor:"seq"`
	Chain          uint64 `cbor:"chain"`
	Confirmed      uint64 `cbor:"confirmed"`
	ChainConfirmed uint64 `cbor:"chain_confirmed"`
}

// Mark is the sink's mark.
func (s *Sink) Mark() pipeline.SinkMark {
	return pipeline.SinkMark{UID: s.UID, Generation: s.Generation, Seq: s.Seq, Chain: s.Chain}
}

// check refuses what no agent writes; a file may come from anywhere.
func (h *Head) check() error {
	switch {
	case h.Format != Format:
		return ErrNotSavepoint
	case h.Version > Version:
		return pipeline.Newer(ErrVersion, "savepoint of weir "+h.Writer, h.Version, Version)
	case h.Version == 0 || len(h.UUID) != 16 || len(h.PlanHash) != 32 || h.Major > math.MaxUint32 || h.Minor > math.MaxUint32 || h.ElapsedNs < 0:
		return fmt.Errorf("%w: head", ErrCorrupt)
	}
	tables := map[[2]string]bool{}
	for _, t := range h.Tables {
		id := [2]string{t.UID, t.Name}
		if t.UID == "" || t.Kind < uint64(state.Value) || t.Kind > uint64(state.List) || t.Version > math.MaxUint16 || t.TTLNs < 0 ||
			t.MaxKeys < 0 || t.MaxKeys > math.MaxInt || tables[id] {
			return fmt.Errorf("%w: table %s/%s", ErrCorrupt, t.UID, t.Name)
		}
		tables[id] = true
	}
	sinks := map[string]bool{}
	for _, s := range h.Sinks {
		if s.UID == "" || sinks[s.UID] || s.Confirmed > s.Seq {
			return fmt.Errorf("%w: sink %s", ErrCorrupt, s.UID)
		}
		sinks[s.UID] = true
	}
	return nil
}

// chunk is an item behind the head: entries of a table, or results of a sink.
type chunk struct {
	Kind  string `cbor:"kind"`  // kindEntries or kindResults
	Of    uint64 `cbor:"of"`    // index in Head.Tables or Head.Sinks
	Count uint64 `cbor:"count"` // of elements
	Codec string `cbor:"codec"` // codecNone or codecZstd
	Size  uint64 `cbor:"size"`  // of the content, unpacked
	Data  []byte `cbor:"data"`  // the content: a CBOR sequence of elements
}

const (
	kindEntries = "entries"
	kindResults = "results"
	codecNone   = "none"
	codecZstd   = "zstd"
)

// end is the last item, an array. Its last 32 bytes, which are those of the file, are the sha256 of all before them.
type end struct {
	Word    string // endWord
	Chunks  uint64
	Entries uint64
	Results uint64
	SHA256  []byte
}

const endWord = "end"

func (e *end) append(dst []byte) []byte {
	dst = appendText(appendHead(dst, majorArray, 5), e.Word)
	for _, n := range [...]uint64{e.Chunks, e.Entries, e.Results} {
		dst = appendHead(dst, majorUint, n)
	}
	return appendBytesOrNull(dst, e.SHA256)
}

func (e *end) read(item []byte) error {
	r := reader{b: item}
	r.array(5)
	*e = end{Word: string(r.text()), Chunks: r.uint(), Entries: r.uint(), Results: r.uint(), SHA256: r.bytes()}
	return r.end()
}

// result is the n-th element of a chunk of results, an array.
type result struct {
	Seq     uint64
	Last    uint64
	Chain   uint64
	Pos     uint64
	Kind    uint64
	Time    int64
	Payload []byte
}

func (r *result) append(dst []byte) []byte {
	dst = appendHead(dst, majorArray, 7)
	for _, n := range [...]uint64{r.Seq, r.Last, r.Chain, r.Pos, r.Kind} {
		dst = appendHead(dst, majorUint, n)
	}
	return appendBytesOrNull(appendInt(dst, r.Time), r.Payload)
}

// read takes a result off b. The payload is that of b.
func (r *result) read(b []byte) (rest []byte, err error) {
	d := reader{b: b}
	d.array(7)
	*r = result{Seq: d.uint(), Last: d.uint(), Chain: d.uint(), Pos: d.uint(), Kind: d.uint(), Time: d.int(), Payload: d.bytes()}
	return d.b, d.err
}
