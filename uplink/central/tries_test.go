package central

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/uplink/bucket"
)

// sick is a store that refuses or hangs, until it is well.
type sick struct {
	bucket.Bucket
	well     atomic.Bool
	hang     bool
	refuse   func(verb string) bool
	requests atomic.Int64
	bytes    atomic.Int64
}

var errSick = errors.New("507 Insufficient Storage")

func (s *sick) do(ctx context.Context, verb string, n int) error {
	s.requests.Add(1)
	s.bytes.Add(int64(n))
	switch {
	case s.well.Load():
		return nil
	case s.hang:
		<-ctx.Done()
		return ctx.Err()
	case s.refuse(verb):
		return errSick
	}
	return nil
}

func (s *sick) Get(ctx context.Context, name string) ([]byte, string, error) {
	if err := s.do(ctx, "get", 0); err != nil {
		return nil, "", err
	}
	return s.Bucket.Get(ctx, name)
}

func (s *sick) Put(ctx context.Context, name string, b []byte) error {
	if err := s.do(ctx, "put", len(b)); err != nil {
		return err
	}
	return s.Bucket.Put(ctx, name, b)
}

func (s *sick) Replace(ctx context.Context, name, version string, b []byte) (string, error) {
	if err := s.do(ctx, "replace", len(b)); err != nil {
		return "", err
	}
	return s.Bucket.Replace(ctx, name, version, b)
}

func (s *sick) List(ctx context.Context, prefix, after string) ([]bucket.Object, error) {
	if err := s.do(ctx, "list", 0); err != nil {
		return nil, err
	}
	return s.Bucket.List(ctx, prefix, after)
}

func (s *sick) Prepare(ctx context.Context, dir string) error {
	if err := s.do(ctx, "prepare", 0); err != nil {
		return err
	}
	return s.Bucket.Prepare(ctx, dir)
}

// lines counts those of a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte("\n"))
}

// TestStoreIsSick: for twelve hours the store hangs, refuses everything, or answers reads and refuses writes. Requests, bytes over the line, lines of the log and files on the device stay few; what is asked of the
// pipeline returns at once; and then it goes on by itself. In virtual time.
func TestStoreIsSick(t *testing.T) {
	for name, s := range map[string]*sick{
		"hangs":           {hang: true},
		"refuses all":     {refuse: func(string) bool { return true }},
		"is full":         {refuse: func(verb string) bool { return verb == "put" || verb == "replace" }},
		"keeps no heads":  {refuse: func(verb string) bool { return verb == "replace" }},
		"lists nothing":   {refuse: func(verb string) bool { return verb == "list" }},
		"gives nothing":   {refuse: func(verb string) bool { return verb == "get" }},
		"is not prepared": {refuse: func(verb string) bool { return verb == "prepare" }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := &lines{}
				w := newWorld(t, 17)
				w.config = func(c *Config) {
					s.Bucket, c.Bucket, c.Sleep, c.CollectEvery = w.bucket, s, nil, 1
					c.Logger = slog.New(slog.NewTextHandler(told, nil))
				}
				w.start()
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { w.up.Run(ctx) })
				w.checkpoint(400)
				files := 0
				for range 12 * 60 {
					began := time.Now()
					if _, err := w.cut(); err != nil {
						t.Fatal(err)
					}
					_ = w.pipe.Status(time.Now())
					if d := time.Since(began); d > 0 {
						t.Fatalf("the pipeline waited %s for the store", d)
					}
					w.checkpoint(5)
					time.Sleep(time.Minute)
					synctest.Wait()
					files = max(files, len(w.spool.files))
				}
				t.Logf("%d requests, %d bytes, %d lines, %d files", s.requests.Load(), s.bytes.Load(), told.count(), files)
				blocked := name != "lists nothing"
				if blocked && (w.pipe.Status(time.Now()).Uploads > 0 || s.bytes.Load() > 4<<20 || s.requests.Load() > 1500) || files > 6 || told.count() > 1500 {
					t.Errorf("%+v", w.pipe.Status(time.Now()))
				}
				if !blocked && w.pipe.Status(time.Now()).Checkpoint+2 < w.id {
					t.Errorf("uploads wait for the collection: %+v", w.pipe.Status(time.Now()))
				}
				if blocked && w.pipe.Status(time.Now()).Error == "" {
					t.Error("the status does not say why")
				}
				s.well.Store(true)
				for range 20 {
					if _, err := w.cut(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				if id, err := w.check(w.bucket.Clone(), w.id); err != nil || id != w.id {
					t.Errorf("%d, %v", id, err)
				}
				stop()
				running.Wait()
			})
		})
	}
}

// TestOneHoldsUpNoOther: a pipeline whose head cannot be read, for good, costs the others nothing.
func TestOneHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &lines{}
		w := newWorld(t, 19)
		w.config = func(c *Config) { c.Sleep, c.Logger = nil, slog.New(slog.NewTextHandler(told, nil)) }
		w.start()
		stuck, err := w.up.Add(UUID{2}, "q", newSpool())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.bucket.Put(t.Context(), w.up.names.Head(UUID{2}), []byte(`{"version":99}`)); err != nil {
			t.Fatal(err)
		}
		c, err := stuck.Begin(Want{}, About{Journal: "j", Major: 1, Generation: 1, Checkpoint: 1, Plan: []byte("q")})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Commit(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.up.Run(ctx) })
		began := time.Now()
		for range 30 {
			w.checkpoint(10)
			for w.confirmedNow() != w.id {
				if _, err := w.cut(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if time.Since(began) > time.Hour {
					t.Fatalf("an hour for %d uploads", w.id)
				}
			}
		}
		t.Logf("30 uploads in %s, %d lines", time.Since(began), told.count())
		if d := time.Since(began); d > 20*time.Minute || stuck.Status(time.Now()).Error == "" {
			t.Errorf("%s, %+v", d, stuck.Status(time.Now()))
		}
		stop()
		running.Wait()
	})
}

func (w *world) confirmedNow() uint64 { return w.pipe.Status(time.Now()).Checkpoint }
