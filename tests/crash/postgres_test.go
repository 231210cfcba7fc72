package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/oracle"
	"github.com/weirstream/weir/tests/rig"
)

// besides: tables beside the reference receiver, in both commit modes, of rows and of windows.
const besides = `
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 400ms}
    steps:
      - {uid: all, from: a, select: [id, k, ts, v]}
    sinks:
      - {uid: now-a, from: all, commit: immediate, http: {url: "URL"}}
      - {uid: table-now, from: all, commit: immediate, postgres: {dsn_file: "DSN", table: now, create: true, timeout: 5s}}
      - {uid: table-later, from: all, postgres: {dsn_file: "DSN", table: later, create: true, timeout: 5s, columns: {id: id, generation: $generation, seq: $seq}}}
  windows:
    start: earliest
    parallelism: 2
    checkpoint: {interval: 300ms, store: bbolt}
    steps:
      - {uid: w, from: a, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: win-now-a, from: w, commit: immediate, http: {url: "URL"}}
      - {uid: table-win, from: w, postgres: {dsn_file: "DSN", table: windows, create: true, timeout: 5s, columns: {at: window_start, k: k, n: n, sum: sum}}}
`

// database is the far end of the tables: a server behind a proxy, both broken again and again.
type database struct {
	t     *testing.T
	pg    *rig.Postgres
	line  *rig.Proxy
	kills int
}

func startDatabase(t *testing.T) *database {
	t.Helper()
	pg, err := rig.StartPostgres()
	if errors.Is(err, rig.ErrNoPostgres) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pg.Close() })
	line, err := rig.NewProxy(pg.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	return &database{t: t, pg: pg, line: line}
}

func (d *database) kill() {
	d.pg.Kill()
	if err := d.pg.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.kills++
}

// query gives whole numbers.
func (d *database) query(sql string) (rows [][]int) {
	d.t.Helper()
	text, err := d.pg.Query(sql)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, r := range text {
		row := make([]int, len(r))
		for i := range r {
			if row[i], err = strconv.Atoi(r[i]); err != nil {
				d.t.Fatal(err)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// TestPostgresBesides: kill -9 of the agent and of the server, requests cut, answers lost after the commit. SQL counts what is there.
func TestPostgresBesides(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	d := startDatabase(t)
	dsn := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(dsn, []byte(d.pg.DSN(d.line.Addr())), 0o600); err != nil {
		t.Fatal(err)
	}
	s := scenario{qos: 1, messages: 8_000, rate: 1200, kills: 5, resets: 1, receiverRestarts: 1, streams: 2, patience: rig.Patience,
		config: strings.ReplaceAll(besides, "DSN", dsn)}
	databaseKills, cuts := 4, 12
	if long() {
		s.messages, s.rate, s.kills, databaseKills, cuts = 60_000, 2000, 40, 30, 120
	}
	s.more = func(st *stage, add func(n int, do func())) {
		add(databaseKills, d.kill)
		add(cuts, func() {
			switch st.random.IntN(3) {
			case 0:
				d.line.CutRequest(st.random.IntN(20_000))
			case 1:
				d.line.CutAnswer(0)
			default:
				d.line.Reset()
			}
		})
	}
	s.exact(t)
	d.judge(s.messages)
	t.Logf("%d server kills, %d cuts and resets of its line", d.kills, cuts)
}

// judge compares the tables with the truth.
func (d *database) judge(messages int) {
	d.t.Helper()
	in := func(i int) bool { return i%2 == 0 }
	for _, table := range []string{"now", "later"} {
		c := d.query(fmt.Sprintf("SELECT count(*), count(DISTINCT id), coalesce(sum(CASE WHEN id %% 2 <> 0 THEN 1 ELSE 0 END), 0) FROM %s WHERE id < %d", table, messages))[0]
		lost, duplicate := (messages+1)/2-c[1], c[0]-c[1]
		d.t.Logf("table %-8s got %d lost %d duplicate %d", table, c[0], lost, duplicate)
		if lost != 0 || duplicate != 0 || c[2] != 0 {
			d.t.Errorf("table %s is not exactly once: %d rows, %d ids, %d of another topic", table, c[0], c[1], c[2])
		}
	}
	wrong := d.query("SELECT count(*) FROM now WHERE k <> 'd' || lpad((id * 7 % 50)::text, 2, '0') OR ts <> 1767225600000 + id / 3 OR v <> id % 1000")[0][0]
	if flush := 1; wrong > flush {
		d.t.Errorf("%d rows with other values than were published", wrong)
	}
	ledger := d.query("SELECT p.seq, (SELECT count(*) FROM later), (SELECT count(DISTINCT (generation, seq)) FROM later), (SELECT count(*) FROM weir_gaps) " +
		"FROM weir_progress p WHERE p.stream LIKE '%/table-later'")[0]
	if ledger[0] != ledger[1] || ledger[0] != ledger[2] || ledger[3] != 0 {
		d.t.Errorf("progress %d, rows %d, names %d, gaps %d", ledger[0], ledger[1], ledger[2], ledger[3])
	}
	v := verdict{oracle.Verdict{Stream: "table windows"}}
	cells := oracle.Windows{}
	rows := d.query("SELECT at, right(k, 2), n, sum FROM windows WHERE k ~ '^d[0-9]+$'")
	for _, r := range rows {
		w := oracle.Window{Start: int64(r[0]), K: fmt.Sprintf("d%02d", r[1]), N: r[2], Sum: r[3]}
		c := oracle.Cell{Start: w.Start, K: w.K}
		if _, twice := cells[c]; twice {
			v.Duplicate++
		}
		cells[c] = w
	}
	v.Got = len(rows)
	v.Match(truth(messages, in), cells, allClosed)
	d.t.Log(v)
	if !v.OK() {
		d.t.Error("table windows is not exactly once")
	}
}

// waiting: a table that is not there yet.
const waiting = `
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 300ms}
    steps:
      - {uid: all, from: a, select: [id, k]}
    sinks:
      - {uid: table, from: all, postgres: {dsn_file: "DSN", table: waiting, timeout: 5s}}
      - {uid: pass-a, from: a, http: {url: "URL"}}
`

// TestPostgresThatIsNotReady: the agent starts without the server, keeps the results, and its status names what is wrong each time; when
// all is mended they are in the table, each once. No password is in the log, and the log is short.
func TestPostgresThatIsNotReady(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	d := startDatabase(t)
	nobody, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	dsn := filepath.Join(t.TempDir(), "dsn")
	point := func(text string) {
		t.Helper()
		if err := os.WriteFile(dsn, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(sql string) {
		t.Helper()
		if _, err := d.pg.Query(sql); err != nil {
			t.Fatal(err)
		}
	}
	point(d.pg.DSN(nobody))
	s := scenario{qos: 1, messages: 400, rate: 2000, streams: 1, patience: rig.Patience, config: strings.ReplaceAll(waiting, "DSN", dsn)}
	st := newStage(t, &s, rand.New(rand.NewPCG(1, 1)))
	st.publishAll(&s)
	st.waitStatus("connection refused")
	point(strings.Replace(d.pg.DSN(d.pg.Addr), rig.PostgresPassword, "sesame", 1))
	st.waitStatus("postgres refuses the login")
	point(d.pg.DSN(d.pg.Addr))
	st.waitStatus("table public.weir_progress is missing")
	ask(`CREATE TABLE weir_progress (stream text PRIMARY KEY, version smallint NOT NULL, opened bigint NOT NULL, generation bigint NOT NULL, incarnation_major bigint NOT NULL,
		incarnation_minor bigint NOT NULL, board text NOT NULL, seq bigint NOT NULL, chain text NOT NULL, changed timestamptz NOT NULL DEFAULT now());
		CREATE TABLE weir_gaps (stream text, generation bigint, first_seq bigint, last_seq bigint, reason text, PRIMARY KEY (stream, generation, first_seq));
		CREATE TABLE waiting (id boolean, k text)`)
	st.waitStatus("column id is boolean")
	ask("ALTER TABLE waiting ALTER id TYPE bigint USING 1")
	verdicts, problems := st.finish(&s)
	wantExact(t, verdicts, problems)
	if c := d.query("SELECT count(*), count(DISTINCT id) FROM waiting WHERE id < 400")[0]; c[0] != 200 || c[1] != 200 {
		t.Errorf("%d rows, %d ids, want 200", c[0], c[1])
	}
	log, err := os.ReadFile(filepath.Join(st.dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(string(log), "upstream cannot be reached or refuses")
	if strings.Contains(string(log), rig.PostgresPassword) || strings.Contains(string(log), "sesame") || lines < 4 || lines > 9 {
		t.Errorf("%d lines of refusals, or a secret:\n%s", lines, log)
	}
}

// waitStatus waits until weir status says something of a sink.
func (st *stage) waitStatus(want string) {
	st.t.Helper()
	var out []byte
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		out, _ = exec.Command(binary, "status", "-o", "json", "-c", filepath.Join(st.dir, "weir.yaml")).Output()
		if strings.Contains(string(out), want) {
			return
		}
	}
	st.t.Fatalf("the status does not say %q:\n%s", want, out)
}
