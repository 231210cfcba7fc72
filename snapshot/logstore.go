package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"

	"github.com/weirstream/weir/store/disk"
)

// recordLog is what LogStore needs of store/log.
type recordLog interface {
	// Append puts a record behind the last one; not durable. After an error nothing was appended. ErrStoreFailed: nothing more ever will be.
	Append(parts ...[]byte) (uint64, error)
	// AppendReserved is Append that a full log takes too, where the log knows of a reserve.
	AppendReserved(parts ...[]byte) (uint64, error)
	// Sync makes everything appended durable. After ErrStoreFailed the log takes nothing more; after any other error (ctx ended
	// while the disk is full) what was appended still waits and may become durable later.
	Sync(ctx context.Context) error
	First() uint64
	Last() uint64
	// Trim frees what lies below a position, sooner or later.
	Trim(before uint64) error
	// scan calls f for the records from a position up to the last one, until f returns false. rec is valid during the call. It ends
	// with damage (isDamage) where records are lost.
	scan(ctx context.Context, from uint64, f func(pos uint64, rec []byte) (bool, error)) error
	bytes() uint64 // on flash
	Close() error
}

// LogStore keeps chunks and manifests in a recycled log and bases in files: lowest flash wear. The sync of the manifest's record is the
// commit; since it lies behind the chunks in one log, it covers them. mu guards the fields below it.
type LogStore struct {
	log     recordLog
	fs      disk.FS
	dir     string
	uuid    UUID
	logger  *slog.Logger
	pack    *packer
	catalog *catalog // nil: none
	chunk   int      // size at which a chunk is closed: a fraction of a segment

	merging sync.Mutex // held by Rebase; Close waits for it

	mu      sync.Mutex
	live    map[uint64]logged
	waiting []logged // appended, their sync did not end: they become live with the next sync that does
	bad     map[uint64]Bad
	aside   map[uint64]Bad
	keep    map[uint64]bool // base serials that a set-aside manifest names
	last    uint64
	oldest  uint64 // durable: checkpoints below are pruned
	serial  uint64 // highest base number used
	pinned  *Manifest
	fresh   BaseRef
	writing uint64 // first position of the checkpoint under way; 0: none
	failed  error
	noted   bool  // the catalog knows of some checkpoint
	newer   error // a record of a newer build: what it says may change what all others mean
	damage  []string
	stats   StoreStats
	bugs    storeFaults
}

// damageLinesMax bounds what is kept of a log in ruins.
const damageLinesMax = 16

// logged is a live manifest and where its record lies.
type logged struct {
	pos uint64
	m   *Manifest
}

// lowest is the first log position that the checkpoint needs.
func (l logged) lowest() uint64 {
	low := l.pos
	for _, f := range l.m.Frames {
		low = min(low, f.First)
	}
	return low
}

// recover reads the records of the log. What cannot be read is passed over: Restore finds out what that costs.
func (s *LogStore) recover(ctx context.Context) error {
	s.live, s.bad, s.aside, s.keep = map[uint64]logged{}, map[uint64]Bad{}, map[uint64]Bad{}, map[uint64]bool{}
	for next := s.log.First(); next <= s.log.Last(); next++ {
		err := s.log.scan(ctx, next, func(pos uint64, rec []byte) (bool, error) {
			next = pos
			s.replay(pos, rec)
			return true, nil
		})
		if err == nil {
			break
		}
		if !isDamage(err) {
			return err
		}
		if lost := (*lostRange)(nil); errors.As(err, &lost) {
			next = lost.last
		}
		if len(s.damage) < damageLinesMax {
			s.damage = append(s.damage, err.Error())
		}
	}
	for id := range s.live {
		if id < s.oldest {
			delete(s.live, id)
		}
	}
	for id := range s.bad {
		if id < s.oldest {
			delete(s.bad, id)
		}
	}
	return s.newer
}

// replay takes one record. The log has checked its frames, so that a record which does not decode is a mistake or a newer format; it
// never stops the opening.
func (s *LogStore) replay(pos uint64, rec []byte) {
	if len(rec) == 0 {
		return
	}
	content, err := decodeRecord(rec, rec[0])
	c := cursor{b: content}
	switch {
	case errors.Is(err, ErrVersion):
		s.newer = fmt.Errorf("record %d: %w", pos, err)
	case err != nil:
		s.damage = append(s.damage, fmt.Sprintf("record %d: %v", pos, err))
	case rec[0] == kindChunk:
		s.last = max(s.last, c.u64())
	case rec[0] == kindManifest:
		m, err := DecodeManifest(content)
		if err != nil {
			newer := errors.Is(err, ErrVersion) || errors.Is(err, ErrFlags)
			s.bad[s.last] = Bad{ID: s.last, Reason: err.Error(), Newer: newer}
			return
		}
		s.live[m.ID] = logged{pos, m}
		s.last, s.oldest, s.serial = max(s.last, m.ID), max(s.oldest, m.Oldest), max(s.serial, m.Base.Serial)
	case rec[0] == kindPrune:
		s.oldest = max(s.oldest, c.u64())
	case rec[0] == kindAside:
		id := c.u64()
		s.markAside(id, c.string())
	}
}

// markAside moves a checkpoint out of the live ones, in memory.
func (s *LogStore) markAside(id uint64, reason string) {
	if l, ok := s.live[id]; ok {
		s.keep[l.m.Base.Serial] = true
	}
	delete(s.live, id)
	delete(s.bad, id)
	s.aside[id] = Bad{ID: id, Reason: reason}
	s.last = max(s.last, id)
}

// LastID implements Store.
func (s *LogStore) LastID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// List implements Store.
func (s *LogStore) List(context.Context) (Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := Listing{Damage: slices.Clone(s.damage)}
	for _, e := range s.live {
		l.Manifests = append(l.Manifests, e.m)
	}
	for _, b := range s.bad {
		l.Bad = append(l.Bad, b)
	}
	for _, b := range s.aside {
		l.SetAside = append(l.SetAside, b)
	}
	slices.SortFunc(l.Manifests, func(a, b *Manifest) int { return compareDown(a.ID, b.ID) })
	sort.Slice(l.Bad, func(i, j int) bool { return l.Bad[i].ID > l.Bad[j].ID })
	sort.Slice(l.SetAside, func(i, j int) bool { return l.SetAside[i].ID > l.SetAside[j].ID })
	l.Fresh = len(l.Manifests)+len(l.Bad)+len(l.SetAside)+len(l.Damage) == 0 && s.oldest == 0 && s.serial == 0
	return l, nil
}

func compareDown(a, b uint64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// Begin implements Store.
func (s *LogStore) Begin(_ context.Context, parent *Manifest, id uint64) (Writer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return nil, fmt.Errorf("begin checkpoint %d: %w", id, s.failed)
	}
	if id <= s.last {
		return nil, fmt.Errorf("begin checkpoint %d: number %d was used already", id, s.last)
	}
	s.last, s.writing = id, s.log.Last()+1
	w := &logWriter{s: s, parent: parent, id: id}
	w.sort.sink, w.sort.chunkBytes = w, s.chunk
	return w, nil
}

// commitRecord appends a record and syncs; a small one may use the log's reserve. Position 0: nothing was appended; with an error and a position it may become durable yet.
func (s *LogStore) commitRecord(ctx context.Context, kind byte, small bool, content []byte) (uint64, error) {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return 0, failed
	}
	rec := append([]byte{kind, recordVersion}, content...)
	write := s.log.Append
	if small && !s.bugs.noReserve {
		write = s.log.AppendReserved
	}
	pos, err := write(appendCRC(rec, 0))
	if err == nil && !(s.bugs.asideUnsynced && kind == kindAside) {
		err = s.log.Sync(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, ErrStoreFailed) {
		s.failed = err
	}
	if err == nil {
		for _, l := range s.waiting {
			if l.m.ID >= s.oldest {
				s.live[l.m.ID] = l
			}
		}
		s.waiting = nil
	}
	return pos, err
}

func (s *LogStore) wait(l logged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, l)
}

func (s *LogStore) dropBelow(oldest uint64) {
	s.oldest = oldest
	for id := range s.live {
		if id < oldest {
			delete(s.live, id)
		}
	}
	for id := range s.bad {
		if id < oldest {
			delete(s.bad, id)
		}
	}
}

// Stats implements Store.
func (s *LogStore) Stats() StoreStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Checkpoints = len(s.live)
	s.stats.Bytes = s.log.bytes()
	seen := map[uint64]bool{0: true}
	for _, l := range s.live {
		if b := l.m.Base; !seen[b.Serial] {
			seen[b.Serial] = true
			s.stats.Bytes += b.Bytes
		}
	}
	return s.stats
}

// Close implements Store.
func (s *LogStore) Close() error {
	s.merging.Lock()
	defer s.merging.Unlock()
	s.note()
	var err error
	if s.catalog != nil {
		err = s.catalog.close()
	}
	return errors.Join(err, s.log.Close())
}
