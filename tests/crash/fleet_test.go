package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// directed: as saved, by a fleet, over a directory and a doorbell at the broker of the sources.
const directed = `
fleet: {root: ROOT, channel: stable, poll: 10s, doorbell: {broker: rig, topic: fleet/stable}}
central: {url: "file://CENTRAL", interval: 1h, fence_poll: 1h}
journal: {segment: 256KiB, compress: false}
`

// fleet is a keeper whose agent is directed from afar.
type fleet struct {
	*keeper
	store  *bucket.Directory
	serial uint64
	list   []document.Command
	config string
}

func newFleet(t *testing.T, s *scenario) *fleet {
	s.dir = stageDir(t)
	store := t.TempDir()
	root, err := rig.FleetRoot(t.Context())
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "root.json"), root, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.config = strings.NewReplacer("ROOT", filepath.Join(s.dir, "root.json"), "CENTRAL", store, "PARALLEL", "1").Replace(directed + saved)
	s.env = append(s.env, "WEIR_FLEET_POLL=300ms")
	k := &keeper{stage: newStage(t, s, rand.New(rand.NewPCG(1, 1)))}
	k.agent.Kill()
	return &fleet{keeper: k, store: bucket.OpenDirectory(store), config: k.stage.config}
}

// order publishes one more command.
func (f *fleet) order(c document.Command) uint64 {
	f.t.Helper()
	f.serial++
	c.Serial, c.ID, c.CreatedMs = f.serial, fmt.Sprintf("c%d", f.serial), 1_780_000_000_000
	f.list = append(f.list, c)
	if len(f.list) > 64 {
		f.list = f.list[1:]
	}
	d := &document.Commands{Fleet: "plant", Scope: "device/crash", Serial: f.serial, CreatedMs: 1_780_000_000_000, List: f.list}
	payload, err := d.Encode()
	f.must(err)
	e, err := signed.Seal(f.t.Context(), signed.TypeCommands, payload, rig.FleetKey("deploy"))
	f.must(err)
	f.must(f.store.Put(f.t.Context(), depot.DeviceCommands("crash"), e.Bytes()))
	return f.serial
}

// result waits for that of a command, signed by a key of the gateway.
func (f *fleet) result(serial uint64, keys map[string]bool) *document.Result {
	f.t.Helper()
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		f.dead() // a keeper that cannot start anything
		f.key(keys)
		body, _, err := f.store.Get(context.Background(), depot.Result("crash", "device/crash", 1, serial))
		if errors.Is(err, bucket.ErrNotFound) {
			continue
		}
		f.must(err)
		for line := range keys {
			key, err := central.ParsePublic(line)
			f.must(err)
			if payload, err := signed.VerifyDevice(body, signed.TypeResult, key); err == nil {
				r, err := document.DecodeResult(payload)
				f.must(err)
				return r
			}
		}
	}
	f.dump()
	f.t.Fatalf("command %d has no result", serial)
	return nil
}

// key notes the gateway's key, as it is now.
func (f *fleet) key(keys map[string]bool) {
	for _, name := range []string{"key", "key.next"} {
		b, err := os.ReadFile(filepath.Join(f.dir, "state", "identity", name))
		if err != nil {
			continue // it is being replaced
		}
		k, err := central.ParseKey(b)
		f.must(err)
		keys[signed.FormatLine(signed.KeySigner(k).Public())] = true
	}
}

// fleetCase is a crash at a step of a command.
type fleetCase struct {
	do, step string
	results  string // that it may have
}

// fleetCases are the durable steps of a command (agent/channel/DESIGN.md), and what each kind of command does at its own.
func fleetCases() (list []fleetCase) {
	for _, step := range []string{"serial-before", "serial-after", "begin-before", "begin-after", "do-savepoint", "ended", "result-before", "result-after", "end-after", "sent"} {
		list = append(list, fleetCase{document.DoSavepoint, "fleet-" + step, "done"})
	}
	for _, step := range []string{"fleet-begin-after", "fleet-do-apply", "apply-before-begun", "apply-after-begun", "apply-before-saved", "apply-after-saved", "fleet-ended", "fleet-result-after"} {
		list = append(list, fleetCase{document.DoApply, step, "done failed"})
	}
	for _, step := range []string{"begin-after", "do-restart"} {
		list = append(list, fleetCase{document.DoRestart, "fleet-" + step, "done"})
	}
	for _, step := range []string{"begin-after", "do-rotate-key", "ended", "result-after", "end-after", "key-before", "key-after", "settled"} {
		list = append(list, fleetCase{document.DoRotateKey, "fleet-" + step, "done"})
	}
	for _, do := range []string{document.DoRestartPipeline, document.DoDiagnostics} {
		list = append(list, fleetCase{do, "fleet-begin-after", "done"}, fleetCase{do, "fleet-ended", "done"})
	}
	return list
}

// TestFleetKilledAtEveryStep: each command has one result, and was carried out once; the receiver has each result of the pipelines once.
func TestFleetKilledAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	s := &scenario{qos: 1, messages: 0, rate: 1000, streams: savedStreams, patience: 3 * time.Minute}
	f := newFleet(t, s)
	n, keys := 0, map[string]bool{}
	publish := func() {
		for end := n + 20; n < end; n++ {
			payload, _ := json.Marshal(messageOf(n))
			f.publish(topicOf(n), payload)
		}
	}
	for i, c := range fleetCases() {
		if !long() && i%shortEvery != 0 {
			continue
		}
		publish()
		f.crash(c, keys, publish)
	}
	f.start()
	f.flood(t)
	f.stop()
	f.startAgentOfRecord()
	s.messages, s.more = n, nil
	f.publishFlush(n)
	verdicts, problems := f.finish(s)
	wantExact(t, verdicts, problems)
}

// crash carries one case out.
func (f *fleet) crash(c fleetCase, keys map[string]bool, publish func()) {
	f.t.Helper()
	f.start("WEIR_DIE_AT=" + c.step)
	defer f.stop()
	f.await("rest", rests)
	before, applies := len(f.savepoints()), f.applies()
	one := document.Command{Do: c.do}
	switch c.do {
	case document.DoSavepoint:
		one.Upload = true
	case document.DoDiagnostics:
		one.Upload = true
	case document.DoApply:
		f.config = changes[f.n%len(changes)](f.config)
		f.n++
		one.Config, one.Allow = f.config, true
	}
	serial := f.order(one)
	publish()
	for deadline := time.Now().Add(rig.Patience); !f.dead(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.dump()
			f.t.Fatalf("%+v: nobody was killed", c)
		}
	}
	r := f.result(serial, keys)
	f.t.Logf("%s killed at %s: %s %.80s", c.do, c.step, r.Result, r.Detail)
	if !strings.Contains(c.results, r.Result) || r.Result == document.ResultFailed && !strings.Contains(r.Detail, "cut short") && !strings.Contains(r.Detail, "gone back from") {
		f.t.Errorf("%+v: %s: %s", c, r.Result, r.Detail)
	}
	f.await("rest behind it", rests)
	if got := len(f.savepoints()) - before; c.do == document.DoSavepoint && got != 1 {
		f.t.Errorf("%+v: %d savepoints were made, want 1", c, got)
	}
	if got := f.applies() - applies; got > 1 {
		f.t.Errorf("%+v: %d configs were applied, want 1 at most", c, got)
	}
}

func (f *fleet) savepoints() []string {
	list, err := filepath.Glob(filepath.Join(f.dir, "state", "savepoints", "fleet-*"))
	f.must(err)
	return list
}

// applies is how many configs were applied.
func (f *fleet) applies() (n uint64) {
	f.await("status", func(s *api.Status) bool {
		if s.Apply != nil {
			n = s.Apply.Number
		}
		return true
	})
	return n
}

// flood rings the doorbell 10,000 times: it is looked a few times more, and told once.
func (f *fleet) flood(t *testing.T) {
	t.Helper()
	s := f.await("the doorbell", func(s *api.Status) bool { return rests(s) && s.Fleet != nil && s.Fleet.Bell && s.Fleet.Polls > 0 })
	began, polls := time.Now(), s.Fleet.Polls
	client := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + f.broker.Addr).SetClientID("mallory"))
	if token := client.Connect(); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	defer client.Disconnect(100)
	for i := range 10_000 {
		payload := fmt.Sprint(i + 1)
		if i%10 == 9 {
			payload = strings.Repeat("x", 100)
		}
		token := client.Publish("fleet/stable", 1, false, payload)
		if token.Wait() && token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	s = f.await("the rings", func(s *api.Status) bool { return s.Fleet.Rings >= 9_000 })
	// Without a ring it is looked each 12 × 300 ms, give or take a fifth.
	if most := uint64(time.Since(began)/(2800*time.Millisecond)) + 3; s.Fleet.Polls-polls > most {
		t.Errorf("%d looks within %v of 10,000 rings, want %d at most", s.Fleet.Polls-polls, time.Since(began), most)
	}
	if s.Fleet.BadRings == 0 {
		t.Errorf("%+v", s.Fleet)
	}
	log, err := os.ReadFile(filepath.Join(f.dir, "agent.log"))
	f.must(err)
	if got := strings.Count(string(log), "doorbell is rung all the time"); got != 1 {
		t.Errorf("the flood is told %d times, want once", got)
	}
}
