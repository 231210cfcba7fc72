package uplinktest

import (
	"cmp"
	"fmt"
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
	// Window is longer than the far end remembers requests; 0: it remembers none by themselves.
	Window time.Duration
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
	for _, c := range []struct {
		name   string
		f      func(*suite, plant) error
		faults []plant // of which it must find one: where a request has two parts, one of them may be harmless
	}{
		{"answers lost for ten minutes", (*suite).silence, []plant{appending, trusting}},
		{"TestRule16_OutageLongerThanMemory", (*suite).window, []plant{appending}},
		{"dead connection", (*suite).stranded, []plant{clinging}},
		{"TestRule23_TwoIncarnationsAtOnce", (*suite).twins, []plant{stubborn}},
		{"TestRule16_CopiesInAnyOrder", (*suite).late, []plant{appending}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.f(&suite{T: t, far: far(t), o: o}, sound); err != nil {
				t.Fatal(err)
			}
		})
		t.Run(c.name+", planted", func(t *testing.T) {
			for _, fault := range c.faults {
				if err := c.f(&suite{T: t, far: far(t), o: o}, fault); err != nil {
					t.Log("found:", err)
					return
				}
			}
			t.Fatal("the planted fault was not found")
		})
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
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var err error
		if seq, err = e.Confirm(s.Context()); err == nil && seq >= last {
			return seq
		}
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
