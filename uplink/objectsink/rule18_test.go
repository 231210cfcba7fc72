package objectsink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// slowPut keeps the first object back: its request is answered with a cut line and lands when land is called.
type slowPut struct {
	bucket.Bucket
	land func() error
}

func (p *slowPut) Create(ctx context.Context, name string, body []byte) error {
	if p.land == nil {
		body = bytes.Clone(body)
		p.land = func() error { return p.Bucket.Create(context.Background(), name, body) }
		return errCut
	}
	return p.Bucket.Create(ctx, name, body)
}

// TestRule18_ConsumersRemoveOnlyWhatIsOld: a consumer removes objects that it has read. What is older than any put under way is never missed: not by the run,
// not by another process. What is younger (here the void object of a claim whose put is still under way) frees a name: the late put takes it, and its range is there
// twice. That is the planted fault.
func TestRule18_ConsumersRemoveOnlyWhatIsOld(t *testing.T) {
	for _, young := range []bool{false, true} {
		name := "old ones"
		if young {
			name = "young ones too"
		}
		t.Run(name, func(t *testing.T) {
			far := newDirFar(t, "none")
			s := far.Connect(t, "a").(*Sink)
			open(t, s, 0)
			send := func(s *Sink, first, last uint64) error {
				_, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, first, last))
				return err
			}
			uplinktest.Must(t, send(s, 1, 5))
			objects := func() (all []string) {
				t.Helper()
				list, err := s.store.List(t.Context(), s.dir, "")
				uplinktest.Must(t, err)
				for _, o := range list {
					if _, ok := parseName(strings.TrimPrefix(o.Name, s.dir)); ok {
						all = append(all, filepath.Join(far.config.Directory, filepath.FromSlash(o.Name)))
					}
				}
				return all
			}
			for _, old := range objects() {
				uplinktest.Must(t, os.Remove(old))
			}
			put := &slowPut{Bucket: s.store}
			s.store = put
			if err := send(s, 6, 10); !errors.Is(err, errCut) {
				t.Fatalf("send over a cut line: %v", err)
			}
			uplinktest.Must(t, send(s, 6, 10)) // voids the claim, and takes another name
			for _, path := range objects() {
				if body, err := os.ReadFile(path); young && err == nil && len(body) == len(s.void) {
					uplinktest.Must(t, os.Remove(path))
				}
			}
			if err := put.land(); (err == nil) != young {
				t.Errorf("the late put: %v", err)
			}
			later := far.Connect(t, "a").(*Sink)
			open(t, later, 10)
			uplinktest.Must(t, send(later, 11, 12))
			var seqs []string
			count := map[uint64]int{}
			for _, h := range far.Held(t, uplinktest.Stream()) {
				count[h.Seq]++
				seqs = append(seqs, h.Payload)
			}
			twice := 0
			for seq := uint64(6); seq <= 12; seq++ {
				if count[seq] == 0 {
					t.Errorf("sequence %d is missing: %s", seq, strings.Join(seqs, " "))
				}
				twice += max(0, count[seq]-1)
			}
			if (twice > 0) != young {
				t.Errorf("%d results are there twice: %s", twice, strings.Join(seqs, " "))
			}
		})
	}
}
