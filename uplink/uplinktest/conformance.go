package uplinktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// Far is the far end of an endpoint under test, with what it holds.
type Far interface {
	// Connect gives a fresh endpoint, as another process of the given board would have.
	Connect(t testing.TB, board string) uplink.Endpoint
	// Restart ends the far end and starts it on what was durable.
	Restart(t testing.TB)
	// Held gives the records of a stream in order, over all generations.
	Held(t testing.TB, s uplink.Stream) []Held
}

// Options switch off what a kind of sink cannot have.
type Options struct {
	NoChain  bool // Progress carries no chain
	NoBoards bool // an equal incarnation of another board cannot be told apart
	// OneStream: the far end takes a single stream.
	OneStream bool
	// AtLeastOnce: what the endpoint promises is that, and Held has what a consumer that deduplicates by sequence has.
	AtLeastOnce bool
	// NoProgress: the far end keeps points, not runs. It knows neither holes, gaps, incarnations nor generations.
	NoProgress bool
}

// Stream is the name that the suite uses.
func Stream() uplink.Stream { return uplink.Stream{Gateway: "gw-1", Pipeline: "p-1", Sink: "out"} }

// Run checks an exactly-once endpoint against the delivery protocol. far makes a new, empty far end for each test.
func Run(t *testing.T, far func(t testing.TB) Far, o Options) {
	for _, c := range []struct {
		name string
		f    func(*suite)
	}{
		{"empty", (*suite).empty},
		{"continues", (*suite).continues},
		{"TestRule16_DedupBySequence", (*suite).dedup},
		{"TestRule17_HoleIsRefused", (*suite).hole},
		{"gaps", (*suite).gaps},
		{"restart", (*suite).restart},
		{"TestRule23_NewIncarnationInheritsAndFences", (*suite).incarnations},
		{"generation", (*suite).generation},
		{"TestRule28_EqualIncarnationOfAnotherBoard", (*suite).boards},
		{"odd payloads", (*suite).payloads},
		{"streams are apart", (*suite).streams},
		{"faults", (*suite).faults},
	} {
		t.Run(c.name, func(t *testing.T) { c.f(&suite{T: t, far: far(t), o: o}) })
	}
}

type suite struct {
	*testing.T
	far Far
	o   Options
}

func row(seq uint64) string { return fmt.Sprintf(`{"n":%d,"text":"row \"%d\" é"}`, seq, seq) }

// MakeBatch makes the batch first..last of rows that depend on the sequence alone.
func MakeBatch(s uplink.Stream, inc uplink.Incarnation, generation, first, last uint64) *uplink.Batch {
	b := &uplink.Batch{Stream: s, Generation: generation, Incarnation: inc, Previous: first - 1, First: first, Last: last}
	chain := uint64(0)
	for seq := uint64(1); seq <= last; seq++ {
		chain = Chain(chain, row(seq))
		if seq >= first {
			b.Results = append(b.Results, pipeline.Result{Seq: seq, Last: seq, Chain: chain, Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: []byte(row(seq))})
		}
	}
	return b
}

func (s *suite) open(e uplink.Endpoint, inc uplink.Incarnation, generation, want uint64) {
	s.Helper()
	p, err := e.Open(s.Context(), Stream(), inc, generation)
	if err != nil {
		s.Fatalf("open %s generation %d: %v", inc, generation, err)
	}
	if s.o.NoProgress {
		return
	}
	if p.Seq != want {
		s.Fatalf("open %s generation %d: run ends at %d, want %d", inc, generation, p.Seq, want)
	}
	if !s.o.NoChain && p.Generation == generation && want > 0 {
		if c := MakeBatch(Stream(), inc, generation, want, want).Chain(); p.Chain != c {
			s.Fatalf("chain at %d is %016x, want %016x", want, p.Chain, c)
		}
	}
}

func (s *suite) send(e uplink.Endpoint, inc uplink.Incarnation, generation, first, last uint64) {
	s.Helper()
	s.sendBatch(e, MakeBatch(Stream(), inc, generation, first, last))
}

func (s *suite) sendBatch(e uplink.Endpoint, b *uplink.Batch) {
	s.Helper()
	ans, err := e.Send(s.Context(), b)
	if err != nil {
		s.Fatalf("send %d..%d: %v", b.First, b.Last, err)
	}
	if len(ans.Rejected) > 0 {
		s.Fatalf("send %d..%d: rejected %v", b.First, b.Last, ans.Rejected)
	}
	if ans.Durable == 0 {
		ans.Durable = s.confirmed(e, b.Last)
	}
	if ans.Durable < b.Last {
		s.Fatalf("send %d..%d: durable up to %d", b.First, b.Last, ans.Durable)
	}
}

// confirmed polls an endpoint that answers early.
func (s *suite) confirmed(e uplink.Endpoint, last uint64) (seq uint64) {
	s.Helper()
	for range 200 {
		var err error
		if seq, err = e.Confirm(s.Context()); err == nil && seq >= last {
			return seq
		}
		time.Sleep(5 * time.Millisecond)
	}
	return seq
}

func (s *suite) exact(upTo uint64, gap func(uint64) bool) {
	s.Helper()
	var want []string
	for seq := uint64(1); seq <= upTo; seq++ {
		want = append(want, row(seq))
	}
	held := s.far.Held(s, Stream())
	if s.o.NoProgress && gap != nil {
		held = withGaps(held, gap, upTo)
	}
	if err := Exact(held, want, gap); err != nil {
		s.Fatal(err)
	}
}

// withGaps puts in the gaps that a far end of points has not.
func withGaps(held []Held, gap func(uint64) bool, upTo uint64) []Held {
	for seq := uint64(1); seq <= upTo; seq++ {
		if gap(seq) {
			held = append(held, Held{Generation: 1, Seq: seq, Last: seq, Gap: true})
		}
	}
	slices.SortStableFunc(held, func(a, b Held) int { return cmp.Compare(a.Seq, b.Seq) })
	return held
}

// needsProgress skips what a far end of points cannot have.
func (s *suite) needsProgress() {
	if s.o.NoProgress {
		s.Skip("this sink keeps points, not runs")
	}
}

var one = uplink.Incarnation{Major: 1}

func (s *suite) empty() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	if want := map[bool]uplink.Guarantee{true: uplink.AtLeastOnce, false: uplink.ExactlyOnce}[s.o.AtLeastOnce]; e.Guarantee() != want {
		s.Fatalf("guarantee is %s, want %s", e.Guarantee(), want)
	}
	s.open(e, one, 1, 0)
	s.open(e, one, 1, 0)
	s.exact(0, nil)
}

func (s *suite) continues() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 3)
	s.send(e, one, 1, 4, 4)
	s.send(e, one, 1, 5, 60)
	s.open(e, one, 1, 60)
	s.exact(60, nil)
}

func (s *suite) dedup() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 10)
	s.send(e, one, 1, 1, 10)  // the same batch
	s.send(e, one, 1, 3, 7)   // within
	s.send(e, one, 1, 8, 15)  // other cuts: half known
	s.send(e, one, 1, 1, 20)  // all known but the end
	s.send(e, one, 1, 20, 20) // known
	s.open(e, one, 1, 20)
	s.exact(20, nil)
}

func (s *suite) hole() {
	s.needsProgress()
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 4)
	for range 2 {
		if ans, err := e.Send(s.Context(), MakeBatch(Stream(), one, 1, 6, 9)); !errors.Is(err, uplink.ErrHole) {
			s.Fatalf("a batch behind a hole: %+v, %v, want ErrHole", ans, err)
		}
	}
	s.open(e, one, 1, 4)
	s.exact(4, nil)
	s.send(e, one, 1, 5, 9)
	s.exact(9, nil)
}

func (s *suite) gaps() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	b := MakeBatch(Stream(), one, 1, 1, 9)
	whole := b.Results
	gap := func(first, last uint64) pipeline.Result {
		return pipeline.Result{Seq: first, Last: last, Kind: pipeline.ResultGap, Chain: whole[last-1].Chain, Time: pipeline.NoTime, Payload: []byte(`dropped: "full"`)}
	}
	b.Results = []pipeline.Result{whole[0], gap(2, 4), whole[4], gap(6, 9)}
	s.sendBatch(e, b)
	s.sendBatch(e, b)
	s.open(e, one, 1, 9)
	long := MakeBatch(Stream(), one, 1, 12, 12) // a gap that reaches into what is held
	long.Results = append([]pipeline.Result{gap(8, 9)}, long.Results...)
	long.Results[0].Last, long.First, long.Previous = 11, 8, 7
	s.sendBatch(e, long)
	s.open(e, one, 1, 12)
	s.exact(12, func(seq uint64) bool { return seq >= 2 && seq <= 4 || seq >= 6 && seq <= 11 })
}

func (s *suite) restart() {
	e := s.far.Connect(s, "a")
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 7)
	_ = e.Close()
	s.far.Restart(s)
	e = s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 7)
	s.send(e, one, 1, 5, 9)
	s.exact(9, nil)
}

func (s *suite) incarnations() {
	s.needsProgress()
	old, e := s.far.Connect(s, "a"), s.far.Connect(s, "b")
	defer old.Close()
	defer e.Close()
	s.open(old, one, 1, 0)
	s.send(old, one, 1, 1, 5)
	two := uplink.Incarnation{Major: 1, Minor: 1}
	s.open(e, two, 1, 5) // inherits the sequence
	if _, err := old.Send(s.Context(), MakeBatch(Stream(), one, 1, 6, 6)); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("the old incarnation sends on: %v, want ErrFenced", err)
	}
	if _, err := old.Open(s.Context(), Stream(), one, 1); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("the old incarnation opens again: %v, want ErrFenced", err)
	}
	s.send(e, two, 1, 6, 8)
	s.exact(8, nil)
	s.far.Restart(s)
	three := uplink.Incarnation{Major: 2}
	e3 := s.far.Connect(s, "c")
	defer e3.Close()
	if _, err := e3.Open(s.Context(), Stream(), one, 1); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("the fence is gone after a restart: %v", err)
	}
	s.open(e3, three, 1, 8)
}

func (s *suite) generation() {
	s.needsProgress()
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 9)
	two := uplink.Incarnation{Major: 2}
	p, err := e.Open(s.Context(), Stream(), two, 2)
	if err != nil {
		s.Fatal(err)
	}
	if p.Generation == 2 && p.Seq != 0 || p.Generation != 2 && p.Seq != 9 {
		s.Fatalf("open of a new generation: %+v, want the old run or an empty new one", p)
	}
	s.send(e, two, 2, 6, 7) // the restore went back to 5
	s.open(e, two, 2, 7)
	if _, err := e.Open(s.Context(), Stream(), two, 1); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("open of the old generation: %v, want ErrFenced", err)
	}
	if _, err := e.Send(s.Context(), MakeBatch(Stream(), two, 2, 9, 9)); !errors.Is(err, uplink.ErrHole) {
		s.Fatalf("hole in the new generation: %v, want ErrHole", err)
	}
	n := map[uint64]int{}
	for _, h := range s.far.Held(s, Stream()) {
		n[h.Generation]++
	}
	if n[1] != 9 || n[2] != 2 {
		s.Fatalf("records per generation: %v", n)
	}
}

func (s *suite) boards() {
	if s.o.NoBoards || s.o.NoProgress {
		s.Skip("this sink knows no boards")
	}
	a, b := s.far.Connect(s, "a"), s.far.Connect(s, "b")
	defer a.Close()
	defer b.Close()
	s.open(a, one, 1, 0)
	s.send(a, one, 1, 1, 2)
	if _, err := b.Open(s.Context(), Stream(), one, 1); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("another board with an equal incarnation: %v, want ErrFenced", err)
	}
	if _, err := b.Send(s.Context(), MakeBatch(Stream(), one, 1, 3, 3)); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("another board sends: %v, want ErrFenced", err)
	}
	s.send(a, one, 1, 3, 3)
	s.exact(3, nil)
}

func (s *suite) payloads() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	rows := []string{`{}`, `{"a":[1,2,{"b":null}]}`, `{"t":"line\nbreak } \" ,\"seq\":9"}`, `{"big":9223372036854775807,"u":18446744073709551615}`,
		`{"long":"` + string(make([]byte, 0)) + `"}`}
	b := &uplink.Batch{Stream: Stream(), Generation: 1, Incarnation: one, First: 1, Last: uint64(len(rows))}
	for i, r := range rows {
		seq := uint64(i + 1)
		b.Results = append(b.Results, pipeline.Result{Seq: seq, Last: seq, Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: []byte(r)})
	}
	s.sendBatch(e, b)
	if err := Exact(s.far.Held(s, Stream()), rows, nil); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) streams() {
	if s.o.OneStream {
		s.Skip("this sink takes one stream")
	}
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 4)
	other := s.far.Connect(s, "a")
	defer other.Close()
	name := Stream()
	name.Sink = "other"
	if p, err := other.Open(s.Context(), name, one, 1); err != nil || p.Seq != 0 {
		s.Fatalf("another sink's stream: %+v, %v, want an empty one", p, err)
	}
	s.sendBatch(other, MakeBatch(name, one, 1, 1, 2))
	s.exact(4, nil)
	if n := len(s.far.Held(s, name)); n != 2 {
		s.Fatalf("another sink's stream holds %d records, want 2", n)
	}
}

// faults drives a Sender over a link that loses requests, loses answers, delivers copies late and restarts the far end.
func (s *suite) faults() {
	seed := rand.Uint64()
	s.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	q := NewQueue(1, 0)
	var want []string
	for n := range 400 {
		want = append(want, row(uint64(n+1)))
	}
	inc := one
	for round := 0; round < 6; round++ {
		q.Add(want[round*60 : (round+1)*60]...)
		s.drive(q, &Lossy{Endpoint: s.far.Connect(s, fmt.Sprint("board", round)), Rand: rnd}, inc, uint64(round+1)*60)
		s.far.Restart(s)
		inc.Minor++
	}
	if err := Exact(s.far.Held(s, Stream()), want[:360], nil); err != nil {
		s.Fatalf("seed %d: %v", seed, err)
	}
}

// drive runs a sender until the queue is confirmed up to seq.
func (s *suite) drive(q *Queue, e uplink.Endpoint, inc uplink.Incarnation, seq uint64) {
	s.Helper()
	defer e.Close()
	if err := Drive(s.Context(), q, e, inc, 1, seq); err != nil {
		s.Fatal(err)
	}
}

// Drive runs a sender with small batches and short waits until the queue is confirmed up to seq.
func Drive(ctx context.Context, q *Queue, e uplink.Endpoint, inc uplink.Incarnation, generation, seq uint64) error {
	c := uplink.Default()
	c.MaxResults = 7
	c.Backoff = uplink.Backoff{Min: time.Microsecond, Max: 50 * time.Microsecond}
	snd, err := uplink.NewSender(uplink.SenderOptions{Config: c, Stream: Stream(), Generation: generation, Incarnation: inc, Queue: q, Endpoint: e,
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	end, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for q.Confirmed() < seq && ctx.Err() == nil {
			time.Sleep(200 * time.Microsecond)
		}
		stop()
	}()
	err = snd.Run(end)
	if errors.Is(err, context.Canceled) && q.Confirmed() >= seq {
		return nil
	}
	return fmt.Errorf("sender ended at %d of %d: %w", q.Confirmed(), seq, err)
}

// Lossy puts faults of the link before an endpoint.
type Lossy struct {
	uplink.Endpoint
	Rand *rand.Rand
	late []uplink.Batch
}

// Open may lose its question or its answer.
func (l *Lossy) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	if l.Rand.IntN(5) == 0 {
		return uplink.Progress{}, errLink
	}
	p, err := l.Endpoint.Open(ctx, s, inc, generation)
	if l.Rand.IntN(5) == 0 {
		return uplink.Progress{}, errLink
	}
	return p, err
}

// Send may lose the batch or the answer, and may bring old batches again.
func (l *Lossy) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if len(l.late) > 0 && l.Rand.IntN(3) == 0 {
		i := l.Rand.IntN(len(l.late))
		_, _ = l.Endpoint.Send(ctx, &l.late[i]) // its answer reaches nobody
	}
	switch l.Rand.IntN(8) {
	case 0:
		return uplink.Answer{}, errLink
	case 1:
		_, _ = l.Endpoint.Send(ctx, b)
		return uplink.Answer{}, errLink
	case 2:
		c := *b
		c.Results = append([]pipeline.Result(nil), b.Results...)
		l.late = append(l.late, c)
	}
	return l.Endpoint.Send(ctx, b)
}
