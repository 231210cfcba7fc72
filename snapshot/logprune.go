package snapshot

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/store/disk"
)

// SetAside implements Store. A copy of what can still be read of its own frames goes into a file, since the log is recycled.
func (s *LogStore) SetAside(ctx context.Context, id uint64, reason string) error {
	s.mu.Lock()
	l, ok := s.live[id]
	_, bad := s.bad[id]
	s.mu.Unlock()
	if !ok && !bad {
		return nil
	}
	if ok && !s.bugs.asideUnsynced {
		if err := s.copyAside(ctx, l); err != nil {
			// The mark matters, the copy is for the curious: a full disk must not keep the pipeline from starting.
			s.logger.Warn("copy of damaged checkpoint failed", "id", id, "error", err)
		}
	}
	if _, err := s.commitRecord(ctx, kindAside, true, appendString(binary.LittleEndian.AppendUint64(nil, id), reason)); err != nil {
		return fmt.Errorf("set checkpoint %d aside: %w", id, err)
	}
	s.mu.Lock()
	s.markAside(id, reason)
	s.stats.SetAside++
	s.mu.Unlock()
	s.note()
	return nil
}

// asideBytesMax bounds the copy of a damaged checkpoint.
const asideBytesMax = 4 << 20

func (s *LogStore) copyAside(ctx context.Context, l logged) error {
	out := appendBytes(nil, AppendManifest(nil, l.m))
	for _, f := range l.m.Frames {
		if f.Checkpoint != l.m.ID || uint64(len(out))+f.Bytes > asideBytesMax {
			continue
		}
		end := f.First + uint64(f.Count)
		err := s.log.scan(ctx, f.First, func(pos uint64, rec []byte) (bool, error) {
			if pos < end {
				out = appendBytes(out, rec)
			}
			return pos+1 < end, nil
		})
		if err != nil && !isDamage(err) {
			return err
		}
	}
	return disk.WriteFileAtomic(s.fs, filepath.Join(s.dir, fmt.Sprintf("aside-%020d", l.m.ID)), out)
}

// Prune implements Store. When the newest manifest has said so already, nothing is written.
func (s *LogStore) Prune(ctx context.Context, oldest uint64) error {
	s.mu.Lock()
	due := oldest > s.oldest
	s.mu.Unlock()
	if due {
		if _, err := s.commitRecord(ctx, kindPrune, true, binary.LittleEndian.AppendUint64(nil, oldest)); err != nil {
			return fmt.Errorf("prune checkpoints below %d: %w", oldest, err)
		}
		s.mu.Lock()
		s.dropBelow(oldest)
		s.mu.Unlock()
	}
	before, _ := s.free()
	if err := s.log.Trim(before); err != nil {
		return fmt.Errorf("trim checkpoint log below %d: %w", before, err)
	}
	return s.cleanBases()
}

// free tells below which log position nothing is needed, and which base files are.
func (s *LogStore) free() (before uint64, bases map[uint64]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, bases = s.log.Last()+1, map[uint64]bool{s.fresh.Serial: true}
	if s.writing != 0 {
		before = min(before, s.writing)
	}
	need := func(l logged) {
		before = min(before, l.lowest())
		bases[l.m.Base.Serial] = true
	}
	for _, l := range s.live {
		need(l)
	}
	for _, l := range s.waiting {
		need(l)
	}
	if s.pinned != nil {
		need(logged{before, s.pinned})
		for n := s.pinned.Base.Serial; n <= s.serial+1; n++ {
			bases[n] = true
		}
	}
	return before, bases
}
