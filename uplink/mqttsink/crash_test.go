package mqttsink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var errKilled = errors.New("killed")

// TestMain is also the process that TestKilledProcess kills.
func TestMain(m *testing.M) {
	if addr := os.Getenv("WEIR_MQTT_VICTIM"); addr != "" {
		qos := 1
		fmt.Sscan(os.Getenv("WEIR_MQTT_QOS"), &qos)
		if err := victim(addr, qos); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const victimRows = 1500

// victim sends all results, from where the broker says on: what an agent does whose outbox holds them.
func victim(addr string, qos int) error {
	c := Default()
	c.Broker.URL, c.Broker.ConnectTimeout, c.Topic, c.QoS = "mqtt://"+addr, rig.Patience, "results", qos
	s, err := New(c)
	if err != nil {
		return err
	}
	s.lingers = orderedWait
	q := uplinktest.NewQueue(1, 0)
	for n := 1; n <= victimRows; n++ {
		q.Add(row(n))
	}
	return uplinktest.Drive(context.Background(), q, s, one, 1, victimRows)
}

func wanted(n int) (rows []string) {
	for i := 1; i <= n; i++ {
		rows = append(rows, row(i))
	}
	return rows
}

// exact checks what a consumer has, and at QoS 2 that nothing came twice.
func (b *broker) exact(t testing.TB, n int) error {
	t.Helper()
	held, twice := dedup(b.consumer.arrivals(t, uplinktest.Stream()))
	if err := uplinktest.Exact(held, wanted(n), nil); err != nil {
		return err
	}
	if twice > 0 && b.config.QoS == 2 {
		return fmt.Errorf("%d results came twice", twice)
	}
	t.Logf("QoS %d: %d results came twice", b.config.QoS, twice)
	return nil
}

// TestKilledProcess is kill -9 of the process that sends, again and again, and resets of its connection: at QoS 2 each result is at the broker
// once; at QoS 1 once for a consumer that deduplicates.
func TestKilledProcess(t *testing.T) {
	for _, qos := range []int{1, 2} {
		t.Run(fmt.Sprintf("QoS %d", qos), func(t *testing.T) {
			b := startBroker(t, qos, "")
			proxy, err := rig.NewProxy(b.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer proxy.Close()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			log := t.TempDir() + "/log"
			kills := 0
			for round := 0; ; round++ {
				child, err := rig.StartChild(log, []string{"WEIR_MQTT_VICTIM=" + proxy.Addr(), fmt.Sprint("WEIR_MQTT_QOS=", qos)}, os.Args[0])
				if err != nil {
					t.Fatal(err)
				}
				wait := 2 * rig.Patience
				if round < 12 {
					before, _ := proxy.Passed()
					for limit := before + 300 + rnd.Int64N(20_000); ; time.Sleep(time.Millisecond) { // amid its work, however slow the machine is
						if up, _ := proxy.Passed(); up > limit {
							break
						}
						select {
						case <-child.Done():
						default:
							continue
						}
						break
					}
					wait = 0
					if round%3 == 0 {
						proxy.Reset()
					}
				}
				select {
				case <-child.Done():
				case <-time.After(wait):
					child.Kill()
					kills++
					continue
				}
				if round >= 12 {
					break
				}
			}
			if kills < 5 {
				t.Errorf("only %d kills came amid the work", kills)
			}
			if err := b.exact(t, victimRows); err != nil {
				out, _ := os.ReadFile(log)
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// runCrashes sends rows and breaks off at the k-th step: the connection is gone, the process forgets everything. Another one goes on.
func runCrashes(t testing.TB, b *broker, plant planted, breakAt func(step int, point string) bool, rows int) (steps int, err error) {
	t.Helper()
	q := uplinktest.NewQueue(1, 0)
	for n := 1; n <= rows; n++ {
		q.Add(row(n))
	}
	for q.Confirmed() < uint64(rows) {
		s := b.Connect(t, "a").(*Sink)
		s.plant = plant
		s.plant.freshIDs *= uint64(steps)
		dead := false
		s.at = func(point string) error {
			steps++
			if !dead && !breakAt(steps, point) {
				return nil
			}
			dead = true
			if s.conn != nil {
				s.conn.net.Close()
			}
			return errKilled
		}
		if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
			if errors.Is(err, errKilled) || dead {
				continue
			}
			return steps, err
		}
		if _, _, _, err := q.Seek(s.state.Generation, s.state.Seq, s.state.Chain); err != nil {
			return steps, err
		}
		for !dead && q.Confirmed() < uint64(rows) {
			results, err := q.Next(t.Context(), 5, 1<<20)
			if err != nil {
				return steps, err
			}
			batch := uplink.Batch{Stream: uplinktest.Stream(), Generation: 1, Incarnation: one, Previous: results[0].Seq - 1, First: results[0].Seq,
				Last: results[len(results)-1].Last, Results: results}
			a, err := s.Send(t.Context(), &batch)
			switch {
			case dead: // its answer reaches nobody
			case err != nil:
				return steps, err
			default:
				_ = q.Confirm(a.Durable, 0)
			}
		}
		if s.conn != nil {
			s.conn.net.Close()
		}
	}
	return steps, b.exact(t, rows)
}

// TestCrashAtEveryStep breaks off at each step once, and at random ones many times.
func TestCrashAtEveryStep(t *testing.T) {
	for _, qos := range []int{1, 2} {
		t.Run(fmt.Sprintf("QoS %d", qos), func(t *testing.T) {
			steps := 1
			for k := 1; k <= steps; k++ {
				b := startBroker(t, qos, "")
				n, err := runCrashes(t, b, planted{}, func(step int, _ string) bool { return step == k }, 12)
				if err != nil {
					t.Fatalf("broken off at step %d: %v", k, err)
				}
				if k == 1 {
					steps = min(n, 12)
				}
			}
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 2))
			b := startBroker(t, qos, "")
			if _, err := runCrashes(t, b, planted{}, func(int, string) bool { return rnd.IntN(4) == 0 }, 200); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
	}
}

// TestPlantedFaultsAreFound: each rule of the two steps is needed.
func TestPlantedFaultsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		plant  planted
		at     string
		forget bool // the broker forgets the session, and somebody has made another
	}{
		"each process has other packet ids":            {planted{freshIDs: 7}, "decided", false},
		"the same, without the fault":                  {planted{}, "decided", false},
		"released before the progress decides":         {planted{earlyRelease: true}, "released", false},
		"the same without the fault":                   {planted{}, "released", false},
		"another session is believed to have it all":   {planted{blindSession: true}, "decided", true},
		"the session is lost, without the fault (dup)": {planted{}, "decided", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBroker(t, 2, "")
			n := 0
			_, err := runCrashes(t, b, c.plant, func(_ int, point string) bool {
				if point == c.at {
					n++
				}
				if point != c.at || n != 3 {
					return false
				}
				if c.forget {
					s := b.Connect(t, "a").(*Sink)
					s.opening.Stream, s.clientID = uplinktest.Stream(), clientID(uplinktest.Stream())
					conn, err := s.dial(t.Context(), true)
					if err != nil {
						t.Fatal(err)
					}
					conn.close()
				}
				return true
			}, 30)
			if c.plant == (planted{}) {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("the planted fault was not found")
			}
			t.Log("found:", err)
		})
	}
}

// TestRule23_PlantedFenceIsMissed: an older incarnation that sends on is found.
func TestRule23_PlantedFenceIsMissed(t *testing.T) {
	for _, plant := range []planted{{}, {noFence: true}} {
		b := startBroker(t, 1, "")
		old, now := b.Connect(t, "a").(*Sink), b.Connect(t, "b").(*Sink)
		defer old.Close()
		defer now.Close()
		old.plant = plant
		two := uplink.Incarnation{Major: 2}
		for _, o := range []struct {
			s   *Sink
			inc uplink.Incarnation
		}{{old, one}, {now, two}} {
			if _, err := o.s.Open(t.Context(), uplinktest.Stream(), o.inc, 1); err != nil {
				t.Fatal(err)
			}
		}
		_, err := old.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 3))
		n := len(b.Held(t, uplinktest.Stream()))
		if fenced := errors.Is(err, uplink.ErrFenced) && n == 0; fenced == plant.noFence {
			t.Fatalf("%+v: %v, %d results", plant, err, n)
		}
	}
}

// TestCutsAndRestarts: connections are reset, cut in the middle of requests and answers, and the broker is restarted, while results go through.
func TestCutsAndRestarts(t *testing.T) {
	for _, qos := range []int{1, 2} {
		t.Run(fmt.Sprintf("QoS %d", qos), func(t *testing.T) {
			b := startBroker(t, qos, "")
			proxy, err := rig.NewProxy(b.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer proxy.Close()
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 5))
			strikes, next := 0, int64(0)
			stop := uplinktest.Break(t, time.Millisecond, func() error {
				up, _ := proxy.Passed() // by what was sent, however slow the machine is
				if up < next {
					return nil
				}
				next = up + 1500 + rnd.Int64N(3000)
				switch rnd.IntN(4) {
				case 0:
					proxy.Reset()
				case 1:
					proxy.CutRequest(rnd.IntN(4000))
				case 2:
					proxy.CutAnswer(rnd.IntN(200))
				}
				if strikes++; strikes%25 == 20 {
					return b.Mosquitto.Restart()
				}
				return nil
			})
			q := uplinktest.NewQueue(1, 0)
			q.Add(wanted(600)...)
			b.config.Broker.URL = "mqtt://" + proxy.Addr()
			err = uplinktest.Drive(t.Context(), q, b.Connect(t, "a"), one, 1, 600)
			stop()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := b.exact(t, 600); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			t.Logf("%d connections reset", proxy.Resets())
		})
	}
}

// TestKilledBroker is kill -9 of mosquitto, which comes back from its last snapshot. What it lost is told as a gap: no result is missing in silence.
func TestKilledBroker(t *testing.T) {
	for _, qos := range []int{1, 2} {
		t.Run(fmt.Sprintf("QoS %d", qos), func(t *testing.T) {
			b := startBroker(t, qos, "autosave_on_changes true\n")
			q := uplinktest.NewQueue(1, 0)
			q.Add(wanted(800)...)
			kills, last := 0, uint64(0)
			stop := uplinktest.Break(t, 5*time.Millisecond, func() error {
				now := q.Confirmed()
				if now < last+100 || now >= 800 {
					return nil
				}
				last = now
				kills++
				b.Kill()
				return b.Start()
			})
			err := uplinktest.Drive(t.Context(), q, b.Connect(t, "a"), one, 1, 800)
			stop()
			if err != nil {
				t.Fatal(err)
			}
			rows, told := map[uint64]bool{}, map[uint64]bool{}
			all := b.consumer.arrivals(t, uplinktest.Stream())
			for _, a := range all {
				for seq := a.Seq; a.Gap != nil && seq <= a.Last; seq++ {
					told[seq] = true
				}
				if a.Gap == nil {
					rows[a.Seq] = true
				}
			}
			missing := 0
			for seq := uint64(1); seq <= 800; seq++ {
				if !rows[seq] {
					missing++
				}
				if !rows[seq] && !told[seq] {
					t.Errorf("sequence %d is missing in silence", seq)
				}
			}
			t.Logf("%d kills, %d messages for 800 results, %d told as gaps, %d of them never came", kills, len(all), len(told), missing)
			if kills == 0 {
				t.Error("no kill came amid the work")
			}
		})
	}
}
