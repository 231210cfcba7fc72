package upgrade

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// shop has the pieces of artifacts.
type shop struct {
	pieces map[string][]byte
	asked  int
	before func(n int) ([]byte, error) // the n-th request; nil, nil: as it should be
}

func (s *shop) Get(_ context.Context, sha string) ([]byte, error) {
	s.asked++
	if s.before != nil {
		if b, err := s.before(s.asked); b != nil || err != nil {
			return b, err
		}
	}
	b, there := s.pieces[sha]
	if !there {
		return nil, errors.New("404")
	}
	return b, nil
}

func sha(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

// artifact cuts content into pieces.
func artifact(s *shop, content []byte, chunk int) *document.Artifact {
	a := &document.Artifact{Bytes: int64(len(content)), SHA256: sha(content), ChunkBytes: int64(chunk)}
	for len(content) > 0 {
		n := min(chunk, len(content))
		s.pieces[sha(content[:n])] = content[:n]
		a.Chunks = append(a.Chunks, sha(content[:n]))
		content = content[n:]
	}
	return a
}

func stuff(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>3 + i)
	}
	return b
}

func fetched(t *testing.T, fsys disk.FS, dir string, a *document.Artifact, s Chunks) {
	t.Helper()
	name, err := (&Fetcher{FS: fsys, Dir: dir, Chunks: s}).Fetch(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := disk.ReadFile(fsys, name); err != nil || sha(b) != a.SHA256 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
}

func TestFetch(t *testing.T) {
	s := &shop{pieces: map[string][]byte{}}
	dir := t.TempDir() + "/u"
	for _, n := range []int{1, 999, 1000, 1001, 5500} {
		a := artifact(s, stuff(n), 1000)
		s.asked = 0
		fetched(t, disk.OS, dir, a, s)
		fetched(t, disk.OS, dir, a, s) // is there
		if s.asked != len(a.Chunks) {
			t.Errorf("%d pieces were asked for %d times", len(a.Chunks), s.asked)
		}
	}
	a := artifact(s, stuff(5500), 1000)
	for _, b := range [][]byte{stuff(5500)[:2000], nil, bytes.Repeat([]byte("x"), 5500)} { // what was whole is not any more
		if err := disk.WriteFileAtomic(disk.OS, dir+"/slot", b); err != nil {
			t.Fatal(err)
		}
		fetched(t, disk.OS, dir, a, s)
	}
	if err := errors.Join(Discard(disk.OS, dir), Discard(disk.OS, dir)); err != nil {
		t.Error(err)
	}
}

// TestFetchGoesOn: of what is there only what was torn is asked for again; another artifact's part is none of it.
func TestFetchGoesOn(t *testing.T) {
	s := &shop{pieces: map[string][]byte{}}
	a, other := artifact(s, stuff(10_500), 1000), artifact(s, bytes.Repeat([]byte("x"), 2500), 1000)
	m := disktest.NewMem()
	for stop := range 11 {
		ctx, cancel := context.WithCancelCause(t.Context())
		halted := errors.New("halted")
		s.asked, s.before = 0, func(n int) ([]byte, error) {
			if n == 3 {
				cancel(halted)
				return nil, ctx.Err()
			}
			return nil, nil
		}
		_, err := (&Fetcher{FS: m, Dir: "/u", Chunks: s}).Fetch(ctx, a)
		cancel(nil)
		if err == nil {
			if stop != 5 {
				t.Errorf("done in call %d", stop)
			}
			break
		}
		if !errors.Is(err, halted) {
			t.Fatal(err)
		}
		f, err := m.Open("/u/slot.part")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(stuff(300), int64(stop+1)*2000); err != nil { // torn
			t.Fatal(err)
		}
	}
	s.before = nil
	fetched(t, m, "/u", other, s)
	fetched(t, m, "/u", a, s)
}

// crashedFetch gives how many states after a power cut lead to something else than the artifact.
func crashedFetch(t *testing.T, fault string) (wrong, states, most int) {
	s := &shop{pieces: map[string][]byte{}}
	a, before := artifact(s, stuff(3300), 1024), artifact(s, bytes.Repeat([]byte("o"), 2100), 1024)
	m := disktest.NewMem()
	fetched(t, m, "/u", before, s)
	c := disktest.Crasher{Seed: 3, PerCall: 96}
	m.OnOp(func(string) {
		c.Images(m, 0, func(img *disktest.Mem) {
			again := &shop{pieces: s.pieces}
			name, err := (&Fetcher{FS: img, Dir: "/u", Chunks: again, fault: fault}).Fetch(t.Context(), a)
			most = max(most, again.asked)
			b, e := disk.ReadFile(img, name)
			if err != nil || e != nil || sha(b) != a.SHA256 {
				wrong++
			}
		})
	})
	fetched(t, m, "/u", a, s)
	return wrong, c.Distinct(), most
}

// TestFetchCrashStates: from whatever a power cut leaves, the same call gives the artifact.
func TestFetchCrashStates(t *testing.T) {
	if wrong, states, most := crashedFetch(t, ""); wrong > 0 || states < 50 || most > 4 {
		t.Errorf("%d of %d states are wrong, %d pieces were asked for", wrong, states, most)
	}
	if wrong, states, _ := crashedFetch(t, "nothing is verified"); wrong == 0 {
		t.Errorf("a missing verification is not found in %d states", states)
	}
}

// TestFetchStalls: a piece that does not come, or comes wrong, is waited for ever longer, for days; nothing wrong is written.
func TestFetchStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{pieces: map[string][]byte{}}
		a := artifact(s, stuff(2048), 1024)
		waits := map[string]int{}
		began := time.Now()
		m := disktest.NewMem()
		f := &Fetcher{FS: m, Dir: "/u", Progress: func(n int64, why error) {
			if why != nil {
				waits[fmt.Sprintf("%d %.20s", n, why)]++
			}
		}}
		f.Chunks = chunksFunc(func(ctx context.Context, sum string) ([]byte, error) {
			s.asked++
			switch {
			case s.asked%7 == 0:
				return s.Get(ctx, sum)
			case s.asked%3 == 0:
				return stuff(1024)[1:], nil
			case s.asked%3 == 1:
				return bytes.Repeat([]byte("z"), 1024), nil
			}
			<-ctx.Done() // a dead link
			return nil, ctx.Err()
		})
		if _, err := f.Fetch(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Hour || len(waits) < 3 {
			t.Errorf("%s, %v", took, waits)
		}
	})
}

// TestFetchesAreSpread: gateways whose store fails at the same moment do not ask it again at the same moment, nor all within a few seconds.
func TestFetchesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gateways = 40
		s := &shop{pieces: map[string][]byte{}}
		a := artifact(s, stuff(10), 10)
		began := time.Now()
		at := make(chan time.Duration, gateways)
		for range gateways {
			go func() {
				asked := 0
				_, _ = (&Fetcher{FS: disktest.NewMem(), Dir: "/u", Chunks: chunksFunc(func(context.Context, string) ([]byte, error) {
					if asked++; asked == 1 {
						return nil, errors.New("503")
					}
					at <- time.Since(began)
					return stuff(10), nil
				})}).Fetch(t.Context(), a)
			}()
		}
		first, last := time.Hour, time.Duration(0)
		for range gateways {
			one := <-at
			first, last = min(first, one), max(last, one)
		}
		if first < StallWait/2 || last > 2*StallWait || last-first < StallWait/10 {
			t.Errorf("they come back within %s of each other, from %s on", last-first, first)
		}
	})
}

type chunksFunc func(context.Context, string) ([]byte, error)

func (c chunksFunc) Get(ctx context.Context, sha string) ([]byte, error) { return c(ctx, sha) }

// TestFetchRefuses: a manifest whose pieces do not make its whole; a full disk, which says how much is missing; a disk that does not keep what is written.
func TestFetchRefuses(t *testing.T) {
	s := &shop{pieces: map[string][]byte{}}
	a := artifact(s, stuff(5000), 1000)
	lie := *a
	lie.SHA256 = digest("1")
	if _, err := (&Fetcher{FS: disktest.NewMem(), Dir: "/u", Chunks: s}).Fetch(t.Context(), &lie); !errors.Is(err, ErrArtifact) {
		t.Error(err)
	}
	few := *a
	few.Chunks = few.Chunks[1:]
	if _, err := (&Fetcher{FS: disktest.NewMem(), Dir: "/u", Chunks: s}).Fetch(t.Context(), &few); !errors.Is(err, ErrArtifact) {
		t.Error(err)
	}
	m := disktest.NewMem()
	full := disktest.NewFaulty(m)
	full.LimitSpace(3500)
	_, err := (&Fetcher{FS: full, Dir: "/u", Chunks: s}).Fetch(t.Context(), a)
	if !errors.Is(err, ErrSpace) {
		t.Error(err)
	}
	s.asked = 0
	full.LimitSpace(1 << 20)
	fetched(t, full, "/u", a, s)
	if s.asked > 2 {
		t.Errorf("%d pieces were asked for", s.asked)
	}
	if _, err := (&Fetcher{FS: forgetful{disktest.NewMem()}, Dir: "/u", Chunks: s}).Fetch(t.Context(), a); !errors.Is(err, ErrMedium) {
		t.Error(err)
	}
}

// forgetful reads something else in the third piece.
type forgetful struct{ disk.FS }

func (f forgetful) Create(name string) (disk.File, error) {
	file, err := f.FS.Create(name)
	return forgetfulFile{file}, err
}

type forgetfulFile struct{ disk.File }

func (f forgetfulFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	if at == 2000 && n > 0 {
		p[0]++
	}
	return n, err
}

// TestFetchPauses: the hook is asked for every piece, and ends the fetch with its error.
func TestFetchPauses(t *testing.T) {
	s := &shop{pieces: map[string][]byte{}}
	a := artifact(s, stuff(2500), 1000)
	var asked []int64
	metered := errors.New("the link is metered")
	f := &Fetcher{FS: disktest.NewMem(), Dir: "/u", Chunks: s, Pause: func(_ context.Context, n int64) error {
		if asked = append(asked, n); len(asked) == 3 {
			return metered
		}
		return nil
	}}
	if _, err := f.Fetch(t.Context(), a); !errors.Is(err, metered) || fmt.Sprint(asked) != "[1000 1000 500]" {
		t.Error(asked, err)
	}
}
