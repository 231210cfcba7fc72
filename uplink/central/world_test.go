package central

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// memSpool is a spool in memory, whose process dies at a write.
type memSpool struct {
	files  map[string][]byte
	writes int
	killAt int // 0: never
	after  bool
}

var errDied = errors.New("the device lost its power")

func newSpool() *memSpool { return &memSpool{files: map[string][]byte{}} }

func (s *memSpool) Read(name string) ([]byte, error) {
	b, ok := s.files[name]
	if !ok {
		return nil, fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
	}
	return bytes.Clone(b), nil
}

func (s *memSpool) change(do func()) error {
	s.writes++
	if s.killAt > 0 && s.writes >= s.killAt {
		if s.writes == s.killAt && s.after {
			do()
		}
		return errDied
	}
	do()
	return nil
}

func (s *memSpool) Write(name string, b []byte) error {
	return s.change(func() { s.files[name] = bytes.Clone(b) })
}

func (s *memSpool) Remove(name string) error { return s.change(func() { delete(s.files, name) }) }

func (s *memSpool) List() ([]string, error) { return slices.Sorted(maps.Keys(s.files)), nil }

const testGateway = "gw/1"

var (
	testID  = UUID{1, 2, 3}
	testKey = must(func() (ed25519.PrivateKey, error) {
		return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)), nil
	}())
)

func trusted() Trust { return Trust{testKey.Public().(ed25519.PublicKey)} }

// world is a pipeline, as the store sees it: checkpoints of a table and a stream of results.
type world struct {
	t        testing.TB
	bucket   *buckettest.Memory
	spool    *memSpool
	up       *Uploader
	pipe     *Pipeline
	pipeID   UUID
	rand     *rand.Rand
	major    uint32
	config   func(*Config)
	plan     []byte
	keys     int
	value    int
	plant    planted
	state    map[string]string
	dirty    map[uint64]map[string]bool // by checkpoint: what changed since the one before
	id       uint64
	seq      uint64
	confirm  uint64
	states   map[uint64]map[string]string // by checkpoint
	seqs     map[uint64]uint64
	rebases  int
	light    bool   // old states are not kept
	cutBytes uint64 // of deltas
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, bucket: &buckettest.Memory{}, spool: newSpool(), pipeID: testID, rand: rand.New(rand.NewPCG(seed, 1)), major: 1, plan: []byte("plan 1"), keys: 200, value: 20,
		state: map[string]string{}, dirty: map[uint64]map[string]bool{}, states: map[uint64]map[string]string{}, seqs: map[uint64]uint64{}}
	w.start()
	return w
}

// start is a process that begins, with what bucket and spool have.
func (w *world) start() {
	w.t.Helper()
	c := Default()
	c.Gateway, c.Bucket, c.Key, c.CollectEvery = testGateway, w.bucket, testKey, 1
	c.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	if w.config != nil {
		w.config(&c)
	}
	up, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	up.plant = w.plant
	w.up = up
	if w.pipe, err = up.Add(w.pipeID, "p", w.spool); err != nil && !errors.Is(err, errDied) {
		w.t.Fatal(err)
	}
}

// checkpoint changes n keys and some results.
func (w *world) checkpoint(n int) {
	w.id++
	changed := map[string]bool{}
	for range n {
		k := fmt.Sprintf("key-%06d", w.rand.IntN(w.keys))
		if w.rand.IntN(10) == 0 {
			delete(w.state, k)
		} else {
			v := make([]byte, w.value)
			for i := 0; i < len(v); i += 8 {
				var x [8]byte
				binary.LittleEndian.PutUint64(x[:], w.rand.Uint64())
				copy(v[i:], x[:])
			}
			w.state[k] = string(v)
		}
		changed[k] = true
	}
	w.dirty[w.id] = changed
	w.seq += uint64(w.rand.IntN(4))
	w.confirm += uint64(w.rand.IntN(int(w.seq-w.confirm) + 1))
	w.seqs[w.id] = w.seq
	if !w.light {
		w.states[w.id] = maps.Clone(w.state)
	}
}

func testResult(seq uint64) *pipeline.Result {
	return &pipeline.Result{Seq: seq, Last: seq, Chain: seq * 3, Pos: pipeline.Position(seq), Kind: pipeline.ResultData, Time: -int64(seq), Payload: fmt.Appendf(nil, "result %d", seq)}
}

// cut brings the newest checkpoint to the uploader, when it wants one.
func (w *world) cut() (bool, error) {
	want, ok := w.pipe.Wanted(Sum(w.plan), w.major)
	if !ok {
		return false, nil
	}
	c, err := w.pipe.Begin(want, About{Journal: "j", Writer: "test", Major: w.major, Generation: 1, Checkpoint: w.id, Position: w.id * 100, Plan: w.plan,
		Sinks: []Sink{{UID: "s", Generation: 1, Seq: w.seq, Chain: w.seq * 3, Confirmed: w.confirm, ChainConfirmed: w.confirm * 3}}, At: time.Now()})
	if err != nil {
		return false, err
	}
	defer c.Abort()
	for seq := w.confirm + 1; seq <= w.seq; seq++ {
		if err := c.Result(0, testResult(seq)); err != nil {
			return false, err
		}
	}
	keys := map[string]bool{}
	if want.Since == 0 {
		w.rebases++
		for k := range w.state {
			keys[k] = true
		}
	}
	for id := want.Since + 1; want.Since > 0 && id <= w.id; id++ {
		maps.Copy(keys, w.dirty[id])
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		v, there := w.state[k]
		if !there && want.Since == 0 {
			continue
		}
		if err := c.Entry(uint64(k[len(k)-1]&0), []byte(k), nil, []byte(v), !there); err != nil {
			return false, err
		}
	}
	if err := c.Commit(); err != nil {
		return false, err
	}
	if want.Since > 0 {
		w.cutBytes += c.frame.bytes()
	}
	return true, nil
}

var errEndless = errors.New("the uploader does not come to an end")

// drive works until there is nothing to do, or the process is dead.
func (w *world) drive() error {
	w.t.Helper()
	for range 20000 {
		busy, err := w.up.round(w.t.Context())
		if errors.Is(err, buckettest.ErrKilled) || errors.Is(err, errDied) {
			return err
		}
		if !busy {
			return nil
		}
	}
	return errEndless
}

// fetch gives what a device that knows nothing finds.
func (w *world) fetch(b bucket.Bucket, plant planted) (*Fetched, map[string]string, error) {
	f := &Fetcher{Gateway: testGateway, Bucket: b, Trust: trusted(), plant: plant}
	got, err := f.Fetch(w.t.Context(), testID, newSpool())
	if err != nil {
		return nil, nil, err
	}
	state := map[string]string{}
	err = got.Entries(func(table uint64, key, sub, val []byte) error {
		if _, twice := state[string(key)]; twice || table != 0 || len(sub) != 0 {
			return fmt.Errorf("entry %d %q %q twice or of another table", table, key, sub)
		}
		state[string(key)] = string(val)
		return nil
	})
	return got, state, err
}

// check compares what can be fetched with the checkpoint that it says it is.
func (w *world) check(b bucket.Bucket, least uint64) (uint64, error) {
	got, state, err := w.fetch(b, planted{})
	if err != nil {
		return 0, err
	}
	m := got.Manifest
	if len(got.PassedOver) > 0 {
		return 0, fmt.Errorf("the head does not name a whole upload: %v", got.PassedOver)
	}
	if m.Checkpoint < least {
		return 0, fmt.Errorf("checkpoint %d was confirmed, %d is there", least, m.Checkpoint)
	}
	if !maps.Equal(state, w.states[m.Checkpoint]) {
		return 0, fmt.Errorf("checkpoint %d has %d entries, fetched were %d others", m.Checkpoint, len(w.states[m.Checkpoint]), len(state))
	}
	if m.Position != m.Checkpoint*100 || m.Sinks[0].Seq != w.seqs[m.Checkpoint] || string(got.Plan) != string(w.plan) {
		return 0, fmt.Errorf("checkpoint %d is told as %+v", m.Checkpoint, m)
	}
	next := m.Sinks[0].Confirmed + 1
	err = got.Results(0, func(r *pipeline.Result) error {
		want := testResult(next)
		if r.Seq != want.Seq || r.Chain != want.Chain || r.Pos != want.Pos || r.Time != want.Time || r.Kind != want.Kind || !bytes.Equal(r.Payload, want.Payload) {
			return fmt.Errorf("result %+v, want %+v", r, want)
		}
		next++
		return nil
	})
	return m.Checkpoint, err
}

func (w *world) confirmed() uint64 {
	if m := w.pipe.rec.last(); m != nil {
		return m.Checkpoint
	}
	return 0
}
