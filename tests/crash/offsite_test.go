package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// chained: each row has the id of the row before it of its key, so that the state that a device goes on from shows in what it makes. Uploads take a good part of their interval.
const chained = `
central: {url: "s3://%[1]s/central", endpoint: "http://%[2]s", credentials_file: "%[3]s", interval: 1s, fence_poll: 1s, bandwidth: %[5]d}
pipelines:
  chain:
    start: earliest
    checkpoint: {interval: 200ms}
    steps:
      - {uid: rows, from: a, by: [k], lag: {value: id, as: before}}
      - {uid: short, from: rows, select: [id, k, before]}
    sinks:
      - {uid: copy, from: short, %[4]s}
`

// offsite is a device that is killed while it uploads, again and again, and for good.
type offsite struct {
	*twins
	far   *s3End
	least int // messages whose state is known to be in the store
}

type chainRow struct {
	ID     int
	K      string
	Before *int
}

func newOffsite(t *testing.T, bandwidth int, env ...string) *offsite {
	dir := stageDir(t)
	st := &stage{t: t, dir: dir, random: rand.New(rand.NewPCG(*seedFlag, 9))}
	o := &offsite{twins: &twins{stage: st}}
	far, err := startS3End(t, dir)
	if errors.Is(err, rig.ErrNoTool) {
		t.Skipf("no object store: %v", err)
	}
	st.must(err)
	o.far = far.(*s3End)
	config := fmt.Sprintf(chained, o.far.s3.Bucket, o.far.proxy.Addr(), o.far.s3.CredentialsFile, o.far.target("copy"), bandwidth)
	o.startFirst(config, false, env)
	return o
}

// held are the rows upstream.
func (o *offsite) held() (rows []chainRow) {
	o.t.Helper()
	records, err := o.far.held("copy")
	o.must(err)
	for _, r := range records {
		var row chainRow
		o.must(json.Unmarshal(r.Data, &row))
		rows = append(rows, row)
	}
	return rows
}

func (o *offsite) holds(id int) bool {
	return slices.ContainsFunc(o.held(), func(r chainRow) bool { return r.ID == id })
}

// killUploading kills the device so often while it uploads, the last time for good.
func (o *offsite) killUploading(kills int) {
	o.publishMore(100)
	for n := range kills {
		if n == kills/2 { // so much is in the store: what is fetched later is no older
			o.one.await("it has uploaded", func(s *api.Status) bool {
				return len(s.Pipelines) > 0 && s.Pipelines[0].Central != nil && s.Pipelines[0].Central.Uploads > 0 && s.Pipelines[0].Central.Position >= 100
			})
			o.least = 90 // some records are no messages
		}
		for range 8 {
			o.publishMore(10)
			time.Sleep(time.Duration(o.random.IntN(200)) * time.Millisecond)
		}
		o.one.child.Kill()
		if n < kills-1 {
			o.one.start()
			o.one.await("it runs again", connected)
		}
	}
}

// replace restores on an empty device and judges: the state is that of one instant that had been uploaded, the results up to it are upstream exactly, and so is all behind the loss.
func (o *offsite) replace() (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	before := map[int]bool{}
	for _, r := range o.held() {
		before[r.ID] = true
	}
	verified, err := o.other.try("central", "verify", "--gateway", "crash", "--any-key")
	if err != nil || strings.Contains(verified, "passed over") {
		say("verify: %v: %s", err, verified)
	}
	told, err := o.other.try("restore", "--from", "central", "--gateway", "crash", "--any-key")
	if err != nil {
		return append(problems, fmt.Sprintf("restore: %v: %s", err, told))
	}
	if !strings.Contains(told, "lost is what came between") || strings.Contains(told, "passed over") {
		say("restore says: %s", told)
	}
	o.other.start()
	o.other.await("it is connected", connected)
	o.publishMore(150) // each key three times
	o.other.await("all is delivered", func(s *api.Status) bool {
		return connected(s) && s.Sessions[0].Counters["received"] >= 150 && quiet(s) && o.holds(o.number-1)
	})

	rows := map[int]chainRow{}
	for _, r := range o.held() {
		if _, twice := rows[r.ID]; twice {
			say("row %d is upstream twice", r.ID)
		}
		rows[r.ID] = r
	}
	again := o.number // first message that the replacement took itself
	for again > 0 && !before[again-1] {
		if _, ok := rows[again-1]; !ok {
			break
		}
		again--
	}
	last, restored, upTo := map[string]int{}, map[string]int{}, 0
	for id := again; id < o.number; id++ { // what it found in its state
		r := rows[id]
		if _, ok := last[r.K]; !ok && r.Before != nil {
			restored[r.K] = *r.Before
			upTo = max(upTo, *r.Before+1)
		}
		last[r.K] = id
	}
	upTo = min(upTo, again)
	last = map[string]int{}
	for id := range o.number {
		k := messageOf(id).K
		if id == upTo { // the state is that of this instant
			for k, got := range restored {
				if want, ok := last[k]; (!ok || want != got) && got < again {
					say("key %s goes on from row %d: at row %d it had %d", k, got, upTo, want)
				}
			}
		}
		r, ok := rows[id]
		if natural, any := last[k]; ok && id < again && (r.Before != nil) != any || ok && id < again && any && *r.Before != natural {
			say("row %d has %v before it", id, r.Before)
		}
		if !ok && (id < upTo || id >= again) {
			say("row %d is lost, the state is that of %d, the replacement began at %d", id, upTo, again)
		}
		last[k] = id
	}
	if upTo < o.least {
		say("the state is that of row %d, %d were in the store", upTo, o.least)
	}
	o.t.Logf("%d messages, state of %d, again from %d, %d upstream before\n%s", o.number, upTo, again, len(before), told)
	return problems
}

// TestKilledWhileUploading: kill -9 of the device in the middle of uploads to an S3 server, and another that is restored from there on an empty machine.
func TestKilledWhileUploading(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	kills, rounds := 4, 1
	if long() {
		kills, rounds = 12, 5
	}
	for range rounds {
		o := newOffsite(t, 3000)
		o.killUploading(kills)
		for _, p := range o.replace() {
			t.Error(p)
		}
	}
}

// TestKilledWhileUploadingFault: a head that is moved before what it names is there must be found.
func TestKilledWhileUploadingFault(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	for n := range faultRuns {
		o := newOffsite(t, 300, "WEIR_FAULT=central-head-first")
		o.killUploading(1)
		if problems := o.replace(); len(problems) > 0 {
			t.Logf("found in run %d: %s", n+1, problems[0])
			return
		}
	}
	t.Errorf("the planted fault was not found in %d runs", faultRuns)
}
