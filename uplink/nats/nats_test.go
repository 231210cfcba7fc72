package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var atomic = map[string]any{"allow_atomic": true}

func TestConformance(t *testing.T) {
	for name, more := range map[string]map[string]any{"atomic batches": atomic, "single messages": nil} {
		t.Run(name, func(t *testing.T) {
			uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return startServer(t, more) }, uplinktest.Options{Window: 3 * rig.NATSDuplicateWindow})
		})
	}
}

func row(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

var errCut = errors.New("connection was cut")

// link puts faults before a sink's publish: lost before, answer lost after, landed later.
type link struct {
	rand    *rand.Rand
	percent int
	counts  map[string]int
	late    []func()
}

func (l *link) put(s *Sink) {
	s.publish = func(ctx context.Context, messages []*nats.Msg, behind uint64) (uint64, error) {
		kept := l.late[:0]
		for _, do := range l.late {
			if l.rand.IntN(3) == 0 {
				do()
				l.counts["landed late"]++
			} else {
				kept = append(kept, do)
			}
		}
		l.late = kept
		if l.rand.IntN(100) >= l.percent {
			return s.appendMessages(ctx, messages, behind)
		}
		kind := []string{"lost", "answer lost", "late"}[l.rand.IntN(3)]
		l.counts[kind]++
		switch kind {
		case "answer lost":
			_, _ = s.appendMessages(ctx, messages, behind)
		case "late":
			messages = append([]*nats.Msg(nil), messages...)
			l.late = append(l.late, func() {
				ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
				defer cancel()
				_, _ = s.appendMessages(ctx, messages, behind)
			})
		}
		return 0, errCut
	}
}

// rivals lets an older incarnation send the same results with other cuts at the same time.
type rivals struct {
	*Sink
	old  *Sink
	rand *rand.Rand
}

func (r *rivals) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if r.rand.IntN(2) == 0 {
		c := *b
		c.Incarnation = r.old.opening.Incarnation
		_, _ = r.old.Send(ctx, &c)
	}
	return r.Sink.Send(ctx, b)
}

// runFaulty drives senders over faulty links and gives the first difference between what was sent and what arrived.
func runFaulty(t *testing.T, n *server, seed uint64, plant planted, counts map[string]int) error {
	t.Helper()
	want, err := driveFaulty(t, n, seed, plant, counts)
	if err != nil {
		return err
	}
	return uplinktest.Exact(n.Held(t, uplinktest.Stream()), want, nil)
}

// driveFaulty drives senders of several incarnations over faulty links, with the one before still at work; between turns the duplicate window passes. It
// gives what was sent.
func driveFaulty(t *testing.T, n *server, seed uint64, plant planted, counts map[string]int) (want []string, err error) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 3))
	l := &link{rand: rnd, percent: 25, counts: counts}
	q := uplinktest.NewQueue(1, 0)
	inc := one
	var before *Sink
	for round := range 4 {
		for range 40 {
			want = append(want, row(len(want)+1))
			q.Add(want[len(want)-1])
		}
		c := n.config
		c.Board = fmt.Sprint("board", round)
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.plant = plant
		l.put(s)
		var e uplink.Endpoint = &kept{s}
		if before != nil {
			e = &kept{&rivals{Sink: s, old: before, rand: rnd}}
		}
		if err := uplinktest.Drive(t.Context(), q, e, inc, 1, uint64(len(want))); err != nil {
			return nil, err
		}
		before = s
		inc.Minor++
	}
	return want, nil
}

// kept keeps a sink open behind its sender: it goes on as a rival.
type kept struct{ uplink.Endpoint }

func (k *kept) Close() error { return nil }

func TestExactlyOnceOverEveryFault(t *testing.T) {
	base, counts := rand.Uint64(), map[string]int{}
	t.Logf("seed %d", base)
	for i, more := range []map[string]any{atomic, nil, atomic} {
		n := startServer(t, more)
		if err := runFaulty(t, n, base+uint64(i), planted{}, counts); err != nil {
			t.Fatalf("seed %d: %v", base+uint64(i), err)
		}
	}
	t.Logf("faults %v", counts)
	for _, k := range []string{"lost", "answer lost", "late", "landed late"} {
		if counts[k] == 0 {
			t.Errorf("fault %q never came", k)
		}
	}
}

// TestCutsAndKills: connections are reset in the middle and the server is killed, while results go through.
func TestCutsAndKills(t *testing.T) {
	n := startServer(t, atomic)
	proxy, kills := n.line, 0
	seed, counts := rand.Uint64(), map[string]int{}
	rnd, next, strikes := rand.New(rand.NewPCG(seed, 7)), int64(0), 0
	stop := uplinktest.Break(t, time.Millisecond, func() error {
		up, _ := proxy.Passed() // by what was sent, however slow the machine is: else it would never get a batch through
		if up < next {
			return nil
		}
		next = up + 2000 + rnd.Int64N(4000)
		proxy.Reset()
		if strikes++; strikes%8 != 4 {
			return nil
		}
		kills++
		return n.restart()
	})
	want, err := driveFaulty(t, n, seed, planted{}, counts)
	stop()
	if err == nil {
		err = uplinktest.Exact(n.Held(t, uplinktest.Stream()), want, nil)
	}
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	t.Logf("%v, %d connections reset, %d kills", counts, proxy.Resets(), kills)
	if kills == 0 {
		t.Error("the server was never killed")
	}
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for name, plant := range map[string]planted{
		"TestRule23_older incarnation goes on": {noFence: true, blind: true},
		"TestRule16_nothing is expected":       {blind: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				n := startServer(t, atomic)
				if err := runFaulty(t, n, seed, plant, map[string]int{}); err != nil {
					t.Logf("found with seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("the planted fault was not found")
		})
	}
}

// TestRule16_OutageLongerThanTheDuplicateWindow: the answer to a batch is lost, the stream's window (100 ms) passes, the batch comes again with other cuts.
func TestRule16_OutageLongerThanTheDuplicateWindow(t *testing.T) {
	run := func(plant planted, outage time.Duration) error {
		n := startServer(t, nil)
		send := func(lose bool, first, last uint64) error {
			s := n.Connect(t, "a").(*Sink)
			defer s.Close()
			s.plant = plant
			if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
				t.Fatal(err)
			}
			if plant.noExpect {
				s.state.Seq = first - 1 // such a sink trusts the window and not what it reads back
			}
			if lose {
				s.publish = func(ctx context.Context, m []*nats.Msg, behind uint64) (uint64, error) {
					_, err := s.appendMessages(ctx, m, behind)
					return 0, errors.Join(errCut, err)
				}
			}
			_, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, first, last))
			return err
		}
		if err := send(true, 1, 1); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		time.Sleep(outage)
		if err := send(false, 1, 3); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, r := range uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 3).Results {
			want = append(want, string(r.Payload))
		}
		return uplinktest.Exact(n.Held(t, uplinktest.Stream()), want, nil)
	}
	const outage = 3 * rig.NATSDuplicateWindow
	if err := run(planted{}, outage); err != nil {
		t.Fatal(err)
	}
	for wait := outage; wait < rig.Patience/4; wait *= 3 { // a slow server forgets later
		if err := run(planted{noExpect: true}, wait); err != nil {
			t.Log("planted fault found:", err)
			return
		}
	}
	t.Fatal("the planted fault (Nats-Msg-Id alone) was not found")
}

// TestContendedOpen: another sender appends under each try; that is temporary, and says so.
func TestContendedOpen(t *testing.T) {
	s := startServer(t, nil).Connect(t, "a").(*Sink)
	defer s.Close()
	left := openTries
	s.publish = func(ctx context.Context, m []*nats.Msg, behind uint64) (uint64, error) {
		if left--; left >= 0 {
			return 0, errMoved
		}
		return s.appendMessages(ctx, m, behind)
	}
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); !errors.Is(err, uplink.ErrContended) {
		t.Fatalf("%v, want ErrContended", err)
	}
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
		t.Fatal(err)
	}
}

// TestLargeRecordsAreNamed: one over max_payload, and one over the stream's max_msg_size in the middle of an atomic batch.
func TestLargeRecordsAreNamed(t *testing.T) {
	for name, size := range map[string]int{"server": 70 << 10, "stream": 5000} {
		t.Run(name, func(t *testing.T) {
			n := startServer(t, map[string]any{"allow_atomic": true, "max_msg_size": 4096})
			s := n.Connect(t, "a")
			q := uplinktest.NewQueue(1, 0)
			q.Add(row(1), `"`+strings.Repeat("x", size)+`"`, row(3))
			if err := uplinktest.Drive(t.Context(), q, s, one, 1, 3); err != nil {
				t.Fatal(err)
			}
			held := n.Held(t, uplinktest.Stream())
			if err := uplinktest.Exact(held, []string{row(1), "", row(3)}, func(seq uint64) bool { return seq == 2 }); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func FuzzReadState(f *testing.F) {
	f.Add("row", "1", "1.0", "5", "", "")
	f.Add("gap", "1", "1.0", "5", "7", "0000000000000001")
	f.Fuzz(func(t *testing.T, kind, generation, inc, seq, last, chain string) {
		h := nats.Header{headerKind: {kind}, headerGeneration: {generation}, headerIncarnation: {inc}, headerSeq: {seq}, headerLast: {last}, headerChain: {chain}}
		if _, err := readState(h, 1); err != nil && !errors.Is(err, ErrForeign) {
			t.Fatal(err)
		}
	})
}
