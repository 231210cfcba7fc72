package rollout

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/pace"
)

// The simulation: a fleet in virtual time against Judge and Next, which decide, and fleet/pace, by which gateways wait. Times are in seconds. Each gateway costs what it would cost at an S3.

// List prices that the figures in docs/fleet.md rest on: S3 Standard in us-east-1, in US dollars.
const (
	dollarsPerMillionGets   = 0.40
	dollarsPerMillionWrites = 5.00 // puts and lists
	dollarsPerGigabyteOut   = 0.09
)

// What a gateway asks for.
const (
	answerBytes      = 400
	documentBytes    = 3000
	programBytes     = 20 << 20
	pieces           = programBytes / document.ChunkBytesDefault
	putsPerUpgrade   = 3 // savepoints that are uploaded
	reconcileSeconds = 900
	day              = 24 * 3600
)

// simulated says what is simulated.
type simulated struct {
	gateways  int
	seconds   int
	bell      bool
	pace      pace.Pace
	away      int // per mille of gateways that are away at the beginning, for up to a day
	dies      int // per mille of upgrades behind whose switch nothing is ever heard
	rollsBack int
	idle      bool // nothing is rolled out
	fault     planted
}

type simGateway struct {
	name   string
	cohort int
	poll   int // second of the next poll
	back   int // away until then
	serial uint64
	state  string
}

// simulation is one run.
type simulation struct {
	simulated
	random      *rand.Rand
	list        []simGateway
	at          map[int][]int // gateways that do something in a second: poll, or go on with their upgrade
	steps       map[int][]int
	asked       []uint32 // requests in each second
	gets, puts  int64
	bytes       int64
	doc         *document.Rollout
	facts       Facts
	read        int // reports written since the last reading
	haltedAt    int // second; 0: never
	doneAt      int
	switched    int // gateways that the release has reached
	waveBegan   []int
	lastVerdict Verdict
}

func simulate(s simulated) *simulation {
	m := &simulation{simulated: s, random: rand.New(rand.NewPCG(7, uint64(s.gateways))), at: map[int][]int{}, steps: map[int][]int{}, asked: make([]uint32, s.seconds),
		facts: Facts{Gateways: make(map[string]Gateway, s.gateways), Reports: map[string]Report{}}}
	m.doc = &document.Rollout{Fleet: "plant", Serial: 1, Channel: "stable", ID: "sim", Release: release, Permille: 10, WaveMs: 0,
		Limits: document.Limits{MaxFailedPermille: 50, MinReports: 10, SilenceMs: 2 * hour}, Waves: []document.Wave{{Permille: 10, SoakMs: 6 * hour}, {Permille: 100, SoakMs: 6 * hour}, {Permille: 1000}}}
	if s.idle {
		m.doc.Halted = true
	}
	m.waveBegan = []int{0}
	for i := range s.gateways {
		g := simGateway{name: fmt.Sprintf("gw-%06d", i)}
		g.cohort = document.Cohort("sim", g.name)
		heard := int64(0)
		first := int(m.random.Float64() * m.every())
		if m.random.IntN(1000) < s.away {
			first, heard = m.random.IntN(day), -3*24*hour // it was away for days, and will be for some time
			g.back = first
		}
		m.list = append(m.list, g)
		m.facts.Gateways[g.name] = Gateway{HeardMs: heard}
		m.next(i, first)
	}
	if s.bell && !s.idle {
		m.ring(0)
	}
	for now := range s.seconds {
		for _, i := range m.at[now] {
			if m.list[i].poll == now {
				m.look(i, now)
			}
		}
		for _, i := range m.steps[now] {
			m.step(i, now)
		}
		delete(m.at, now)
		delete(m.steps, now)
		if now > 0 && now%reconcileSeconds == 0 && !s.idle {
			m.reconcile(now)
		}
		if m.doneAt > 0 || m.haltedAt > 0 && now > m.haltedAt+2*3600 {
			break
		}
	}
	return m
}

// every is how many seconds lie between two looks, on average.
func (m *simulation) every() float64 { return m.pace.Look(m.bell, 0, 0.5).Seconds() }

func (m *simulation) next(i, at int) {
	m.list[i].poll = at
	if at < m.seconds {
		m.at[at] = append(m.at[at], i)
	}
}

// ring has everybody look soon who is not away.
func (m *simulation) ring(now int) {
	for i := range m.list {
		if m.list[i].back <= now {
			m.next(i, now+1+seconds(m.pace.Ring(time.Hour, m.random.Float64())))
		}
	}
}

func seconds(d time.Duration) int { return int(d / time.Second) }

func (m *simulation) ask(at, n int) {
	m.gets += int64(n)
	if at < len(m.asked) {
		m.asked[at] += uint32(n)
	}
}

func (m *simulation) put(at int) {
	m.puts++
	if at < len(m.asked) {
		m.asked[at]++
	}
}

// look is a poll.
func (m *simulation) look(i, now int) {
	g := &m.list[i]
	m.ask(now, pace.RequestsPerLook)
	m.bytes += pace.RequestsPerLook * answerBytes
	m.next(i, now+max(1, seconds(m.pace.Look(m.bell, 0, m.random.Float64()))))
	if g.serial == m.doc.Serial {
		return
	}
	g.serial = m.doc.Serial
	m.bytes += documentBytes
	switch {
	case m.doc.Halted && (g.state == "fetching" || g.state == "draining"):
		m.report(i, now, "fetching", Halted)
	case !m.doc.Halted && g.state == "" && g.cohort < m.doc.Permille:
		m.ask(now, 1)
		from, fetch := now+seconds(m.pace.Fetch(m.random.Float64())), 120+m.random.IntN(1200)
		for k := range pieces {
			m.ask(from+k*fetch/pieces, 1)
		}
		m.bytes += programBytes
		m.report(i, now, "fetching", "")
		m.later(i, from+fetch)
	}
}

func (m *simulation) later(i, at int) {
	if at < m.seconds {
		m.steps[at] = append(m.steps[at], i)
	}
}

// step is what a gateway does next in its upgrade.
func (m *simulation) step(i, now int) {
	g := &m.list[i]
	if m.facts.Reports[g.name].Outcome != "" {
		return
	}
	switch g.state {
	case "fetching":
		m.report(i, now, "draining", "")
		m.later(i, now+30)
	case "draining":
		for range putsPerUpgrade {
			m.put(now)
		}
		m.report(i, now, "switched", "")
		m.switched++
		if m.random.IntN(1000) >= m.dies {
			m.later(i, now+60)
		}
	case "switched":
		m.report(i, now, "probation", "")
		m.later(i, now+600)
	case "probation":
		if m.random.IntN(1000) < m.rollsBack {
			m.report(i, now, "rolled back", RolledBack)
		} else {
			m.report(i, now, "committed", Committed)
		}
	}
}

func (m *simulation) report(i, now int, state, outcome string) {
	g := &m.list[i]
	g.state = state
	m.put(now)
	m.read++
	ms := int64(now) * 1000
	m.facts.Reports[g.name] = Report{Release: release, State: state, Outcome: outcome, WrittenMs: ms}
	m.facts.Gateways[g.name] = Gateway{HeardMs: ms}
}

// reconcile is weir fleet reconcile.
func (m *simulation) reconcile(now int) {
	m.puts += int64(1 + (len(m.list)+999)/1000 + (len(m.facts.Reports)+999)/1000) // the clock, two lists
	m.gets += int64(2 * m.read)
	m.read = 0
	m.facts.NowMs = int64(now) * 1000
	m.lastVerdict = judge(m.doc, &m.facts, m.fault)
	if m.lastVerdict.Done && m.doneAt == 0 {
		m.doneAt = now
	}
	n := next(m.doc, m.lastVerdict, m.facts.NowMs, 0, m.fault)
	if n == nil {
		return
	}
	m.puts += 2
	if n.Halted {
		m.haltedAt = now
	} else {
		m.waveBegan = append(m.waveBegan, now)
	}
	if m.doc = n; m.bell {
		m.ring(now)
	}
}

// peak is the most requests in one second, and mean their mean up to there.
func (m *simulation) peak(until int) (peak uint32, mean float64) {
	sum := 0.0
	for _, n := range m.asked[:until] {
		peak = max(peak, n)
		sum += float64(n)
	}
	return peak, sum / float64(until)
}

// dollars is what the requests and bytes of the run cost.
func (m *simulation) dollars() float64 {
	return float64(m.gets)/1e6*dollarsPerMillionGets + float64(m.puts)/1e6*dollarsPerMillionWrites + m.gigabytes()*dollarsPerGigabyteOut
}

func (m *simulation) gigabytes() float64 { return float64(m.bytes) / 1e9 }
