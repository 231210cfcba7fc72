package central

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/weirstream/weir/pipeline"
)

// Shipper brings records of the gateway's journal into the bucket, in a chain of signed pieces. One goroutine uses it; Last may be asked by any. What a process has shipped
// is kept in memory alone: the next one begins a new chain behind what the uploads hold.
type Shipper struct {
	u            *Uploader
	journal      string
	major, minor uint32

	before SHA
	packed []byte // of the piece that is to be put; nil: none
	sha    SHA
	head   recordsHead

	mu          sync.Mutex // guards what is below
	begun, last uint64     // of the chain; 0: nothing is shipped
	sent        uint64
}

// Shipper makes one for a journal, by its identity.
func (u *Uploader) Shipper(journal string, major, minor uint32) *Shipper {
	return &Shipper{u: u, journal: journal, major: major, minor: minor}
}

// ShipBytes is where a piece is closed, by what ShippedBytes says of its blocks.
const ShipBytes = pieceBytes

// Begin leaves the chain: the next piece begins another one.
func (s *Shipper) Begin() {
	s.before, s.packed = SHA{}, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.last = 0, 0
}

// Shipped tells which records the chain has; 0: none.
func (s *Shipper) Shipped() (first, last, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun, s.last, s.sent
}

// Pack makes the next piece of blocks that follow one another, and those the piece before. It replaces one that was not sent.
func (s *Shipper) Pack(blocks []*pipeline.Block) (err error) {
	h := recordsHead{Gateway: s.u.config.Gateway, Journal: s.journal, Major: s.major, Minor: s.minor, First: uint64(blocks[0].First)}
	var runs []stretch
	next := h.First
	for _, b := range blocks {
		r := runOf(b)
		if r.First != next {
			return fmt.Errorf("%w: record %d behind %d", ErrOrder, r.First, next-1)
		}
		next, h.WallMs = r.Last+1, r.Wall
		runs = append(runs, r)
	}
	h.Last = next - 1
	if s.before != (SHA{}) {
		if _, last, _ := s.Shipped(); h.First != last+1 {
			return fmt.Errorf("%w: record %d behind %d", ErrOrder, h.First, last)
		}
		h.Before = s.before[:]
	}
	var upload Upload
	if _, err := rand.Read(upload[:]); err != nil {
		return fmt.Errorf("draw the number of an upload: %w", err)
	}
	s.packed, s.sha, err = s.u.codec.packRecords(h, upload, runs, s.u.config.Key, s.u.config.Seal)
	s.head = h
	return err
}

// Packed tells whether a piece waits to be sent.
func (s *Shipper) Packed() bool { return s.packed != nil }

// Send puts the piece that was packed and reads it back. After an error it is sent again, under the same name.
func (s *Shipper) Send(ctx context.Context) error {
	if s.u.isFenced() {
		return ErrFenced
	}
	if p := s.u.config.Pace; p != nil {
		if err := p(ctx, len(s.packed)); err != nil {
			return err
		}
	}
	name := s.u.names.Records(s.journal, s.head.Last, s.sha)
	s.mu.Lock()
	s.sent += uint64(len(s.packed))
	s.mu.Unlock()
	if err := s.u.within(ctx, len(s.packed), func(ctx context.Context) error { return s.u.config.Bucket.Put(ctx, name, s.packed) }); err != nil {
		return fmt.Errorf("ship records %d to %d: %w", s.head.First, s.head.Last, err)
	}
	b, err := s.u.get(ctx, KindRecords, name, len(s.packed))
	if err == nil {
		err = check(b, s.sha)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("read shipped records %d to %d back: %w", s.head.First, s.head.Last, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun == 0 {
		s.begun = s.head.First
	}
	s.before, s.last, s.packed = s.sha, s.head.Last, nil
	return nil
}
