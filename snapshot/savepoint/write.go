package savepoint

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/log"
)

const (
	// chunkBytes is the size at which a chunk is closed, before compression. Writer and reader hold one.
	chunkBytes = 64 << 10
	// chunkMax is what a chunk may have: one element of the largest size that a checkpoint or the outbox takes, and one more chunk.
	chunkMax = 17 << 20
)

// Summary is what a file holds.
type Summary struct {
	Bytes   uint64 // of the file
	Chunks  uint64
	Entries uint64
	Results uint64
	SHA256  [32]byte // of the file without its last 32 bytes
}

// Writer writes a savepoint front to back: all results in the order of Head.Sinks, then all entries in the order of Head.Tables, each table's in
// rising order of key and subkey. It holds one chunk. Nothing is durable; Create makes it so.
type Writer struct {
	w     io.Writer
	codec *log.Codec
	sum   hash.Hash
	head  Head
	sums  Summary

	open     chunk // Data unpacked
	packed   []byte
	item     []byte // the last chunk
	key, sub []byte // of the last entry of the open table
	begun    bool   // there is one
	seq      uint64 // last result of the open sink
	err      error
}

// NewWriter writes the head. Format and Version of h are set here.
func NewWriter(w io.Writer, h Head, codec *log.Codec) (*Writer, error) {
	h.Format, h.Version = Format, Version
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("write savepoint: %w", err)
	}
	s := &Writer{w: w, codec: codec, sum: sha256.New(), head: h}
	s.write(appendMap(appendHead(nil, majorTag, selfDescribed), h.fields()))
	return s, s.err
}

// Entry takes the next entry of table i.
func (w *Writer) Entry(i int, key, sub, val []byte) error {
	if len(key)+len(sub)+len(val) > chunkMax-chunkBytes {
		return fmt.Errorf("table %s/%s, key of %d, value of %d bytes: %w", w.head.Tables[i].UID, w.head.Tables[i].Name, len(key), len(val), ErrEntryTooLarge)
	}
	if !w.goOn(kindEntries, i, len(key)+len(sub)+len(val)) {
		w.begun = false
	} else if w.begun && compare(w.key, w.sub, key, sub) >= 0 {
		return fmt.Errorf("%w: entries of table %s/%s do not rise", ErrOrder, w.head.Tables[i].UID, w.head.Tables[i].Name)
	}
	w.open.Data = appendEntry(w.open.Data, key, sub, val)
	w.open.Count++
	w.sums.Entries++
	w.key, w.sub, w.begun = append(w.key[:0], key...), append(w.sub[:0], sub...), true
	return w.err
}

// Result takes the next result of sink i.
func (w *Writer) Result(i int, r *pipeline.Result) error {
	if len(r.Payload) > chunkMax-chunkBytes {
		return fmt.Errorf("sink %s, result %d of %d bytes: %w", w.head.Sinks[i].UID, r.Seq, len(r.Payload), ErrEntryTooLarge)
	}
	if !w.goOn(kindResults, i, len(r.Payload)+64) {
		w.seq = w.head.Sinks[i].Confirmed
	}
	if r.Seq != w.seq+1 || r.Last < r.Seq || r.Last > w.head.Sinks[i].Seq {
		return fmt.Errorf("%w: sink %s, results %d to %d behind %d, the last is %d", ErrOrder, w.head.Sinks[i].UID, r.Seq, r.Last, w.seq, w.head.Sinks[i].Seq)
	}
	e := result{Seq: r.Seq, Last: r.Last, Chain: r.Chain, Pos: uint64(r.Pos), Kind: uint64(r.Kind), Time: r.Time, Payload: r.Payload}
	w.open.Data = e.append(w.open.Data)
	w.open.Count++
	w.sums.Results++
	w.seq = r.Last
	return w.err
}

// goOn tells whether the next element, of n bytes, belongs to the same table or sink as the last; a chunk that is full, or of another, is closed.
func (w *Writer) goOn(kind string, of, n int) bool {
	same := w.open.Kind == kind && w.open.Of == uint64(of)
	if !same || len(w.open.Data) > 0 && len(w.open.Data)+n > chunkBytes {
		w.flush()
		w.open.Kind, w.open.Of = kind, uint64(of)
	}
	return same
}

func (w *Writer) flush() {
	if w.open.Count == 0 {
		return
	}
	c := w.open
	c.Codec, c.Size = codecZstd, uint64(len(c.Data))
	w.packed = w.codec.Pack(w.packed[:0], c.Data)
	if c.Data = w.packed; len(w.packed) >= len(w.open.Data) {
		c.Codec, c.Data = codecNone, w.open.Data
	}
	w.item = appendMap(w.item[:0], c.fields())
	w.write(w.item)
	w.sums.Chunks++
	w.open.Data, w.open.Count = w.open.Data[:0], 0
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	w.sum.Write(b)
	w.sums.Bytes += uint64(len(b))
	if _, err := w.w.Write(b); err != nil {
		w.err = fmt.Errorf("write savepoint: %w", err)
	}
}

// Close writes what is open and the end.
func (w *Writer) Close() (Summary, error) {
	w.flush()
	if w.err != nil {
		return Summary{}, w.err
	}
	e := end{Word: endWord, Chunks: w.sums.Chunks, Entries: w.sums.Entries, Results: w.sums.Results, SHA256: make([]byte, 32)}
	b := e.append(nil)
	w.write(b[:len(b)-32])
	w.sum.Sum(w.sums.SHA256[:0])
	if w.err == nil {
		_, w.err = w.w.Write(w.sums.SHA256[:])
		w.sums.Bytes += 32
	}
	return w.sums, w.err
}

func compare(key, sub, key2, sub2 []byte) int {
	if c := bytes.Compare(key, key2); c != 0 {
		return c
	}
	return bytes.Compare(sub, sub2)
}
