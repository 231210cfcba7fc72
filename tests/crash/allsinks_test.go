package crash

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/oracle"
	"github.com/weirstream/weir/tests/rig"
)

// TestAllSinks: every kind of sink at once, of one pipeline and of several, in both commit modes, of rows and of windows. The agent is killed
// and loses power, each server is killed in turn, lines are cut within requests and behind a commit whose answer is then lost. What each
// server holds is read by its own means and compared with the truth.
func TestAllSinks(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	for _, one := range []bool{true, false} {
		t.Run(map[bool]string{true: "one pipeline", false: "several pipelines"}[one], func(t *testing.T) {
			t.Parallel()
			s := scenario{qos: 1, messages: 4_500, rate: 800, kills: 3, powerCuts: 3, syncDelay: slowSync, resets: 1, patience: rig.Patience, receiverLine: true}
			serverKills, cuts := 6, 18
			if long() {
				s.messages, s.rate, s.kills, s.powerCuts, s.resets, s.brokerRestarts = 40_000, 1200, 30, 30, 10, 2
				s.patience, serverKills, cuts = rig.Patience, 50, 250
			}
			runAllSinks(t, &s, one, serverKills, cuts)
		})
	}
}

// allSinks are the ends of a run.
type allSinks struct {
	kinds []string
	ends  []end
}

func startEnds(t *testing.T, dir string) *allSinks {
	t.Helper()
	all := &allSinks{}
	for _, e := range farEnds {
		far, err := e.start(t, dir)
		if errors.Is(err, rig.ErrNoPostgres) || errors.Is(err, rig.ErrNoTool) {
			t.Logf("WARNING: %s is not in this run: %v", e.kind, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all.kinds, all.ends = append(all.kinds, e.kind), append(all.ends, far)
	}
	return all
}

// uids of the sinks of a kind, as verdict reads them.
func uids(kind string) []string {
	return []string{"now-" + kind + "-a", "later-" + kind + "-a", "win-" + kind + "-a"}
}

const httpTarget = `http: {url: "URL", timeout: 5s}`

// config has all sinks in one pipeline, or those of each kind in one of their own.
func (a *allSinks) config(one bool) string {
	var b strings.Builder
	pipeline := func(name, store string) {
		fmt.Fprintf(&b, `
  %s:
    start: earliest
    checkpoint: {interval: 400ms, store: %s}
    steps:
      - {uid: rows, from: a, select: [id, k, ts, v]}
      - {uid: windows, from: a, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
`, name, store)
	}
	sinks := func(kind string, target func(uid string) string) {
		u := uids(kind)
		fmt.Fprintf(&b, "      - {uid: %s, from: rows, commit: immediate, %s}\n", u[0], target(u[0]))
		fmt.Fprintf(&b, "      - {uid: %s, from: rows, %s}\n", u[1], target(u[1]))
		fmt.Fprintf(&b, "      - {uid: %s, from: windows, %s}\n", u[2], target(u[2]))
	}
	b.WriteString("\npipelines:")
	if one {
		pipeline("all", "log")
	} else {
		pipeline("http", "log")
	}
	sinks("http", func(string) string { return httpTarget })
	for i, e := range a.ends {
		if !one {
			pipeline(a.kinds[i], []string{"bbolt", "log"}[i%2])
		}
		sinks(a.kinds[i], e.target)
	}
	return b.String()
}

// brokers are those of the config that sinks publish to.
func (a *allSinks) brokers() (text string) {
	for _, e := range a.ends {
		if b, ok := e.(interface{ broker() string }); ok {
			text += b.broker()
		}
	}
	return text
}

func runAllSinks(t *testing.T, s *scenario, one bool, serverKills, cuts int) {
	s.dir = stageDir(t)
	all := startEnds(t, s.dir)
	s.config, s.brokers, s.streams = busyJournal+all.config(one), all.brokers(), len(uids("http"))
	struck := map[string]int{}
	s.more = func(st *stage, add func(n int, do func())) { all.strikes(st, s, struck, add, serverKills, cuts) }
	st := newStage(t, s, drawn(t))
	st.publishAll(s)
	all.judge(t, st, s)
	t.Logf("strikes %v", struck)
	if !t.Failed() {
		all.mustFindHarm(t, s.messages)
	}
}

// judge ends the run and asks for exactly once at every end.
func (a *allSinks) judge(t *testing.T, st *stage, s *scenario) {
	t.Helper()
	verdicts, problems := st.finish(s)
	for i, e := range a.ends {
		for _, uid := range uids(a.kinds[i]) {
			v, err := judgeEnd(e, uid, s.messages)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", uid, err))
				continue
			}
			verdicts = append(verdicts, v)
		}
	}
	wantExact(t, verdicts, problems)
}

// strikes kills one server after the other and breaks their lines.
func (a *allSinks) strikes(st *stage, s *scenario, struck map[string]int, add func(n int, do func()), serverKills, cuts int) {
	type victim struct {
		kind string
		kill func() error
		line *rig.Proxy
	}
	victims := []victim{{"http", func() error { st.receiver.Kill(); st.startReceiver(s); return nil }, st.line}}
	for i, e := range a.ends {
		if e.line() != nil {
			victims = append(victims, victim{a.kinds[i], e.kill, e.line()})
		}
	}
	turn, cut := st.random.IntN(len(victims)), st.random.IntN(len(victims))
	add(serverKills, func() {
		v := victims[turn%len(victims)]
		turn++
		struck["kill "+v.kind]++
		st.must(v.kill())
	})
	add(cuts, func() {
		v := victims[cut%len(victims)]
		cut++
		switch st.random.IntN(3) {
		case 0:
			v.line.CutRequest(st.random.IntN(20_000))
			struck["request "+v.kind]++
		case 1:
			v.line.CutAnswer(0)
			struck["answer "+v.kind]++
		default:
			v.line.Reset()
			struck["reset "+v.kind]++
		}
	})
}

// judgeEnd compares what a far end holds of a sink with the truth.
func judgeEnd(e end, uid string, flush int) (verdict, error) {
	v := verdict{oracle.Verdict{Stream: uid}}
	all, err := e.held(uid)
	if err != nil {
		return v, err
	}
	ids, cells := map[int]int{}, oracle.Windows{}
	for i, r := range all {
		if r.Seq != 0 && r.Seq != uint64(i+1) {
			v.Wrongf("sequence %d where %d comes next", r.Seq, i+1)
			break
		}
	}
	for _, r := range all {
		if err := v.take(r.Data, ids, cells); err != nil {
			return v, fmt.Errorf("record %.80q: %w", r.Data, err)
		}
		if !v.OfWindows() {
			v.checkValues(r.Data, flush)
		}
	}
	v.compare(flush, ids, cells)
	return v, nil
}

// mustFindHarm spoils what each far end holds, and asks the oracle again.
func (a *allSinks) mustFindHarm(t *testing.T, messages int) {
	t.Helper()
	for i, e := range a.ends {
		for _, uid := range uids(a.kinds[i]) {
			if err := e.harm(uid); err != nil {
				t.Errorf("harm %s: %v", uid, err)
			} else if v, err := judgeEnd(e, uid, messages); err == nil && v.Lost == 0 {
				t.Errorf("%s: the oracle does not find that a record is gone: %s", uid, v)
			}
		}
	}
}
