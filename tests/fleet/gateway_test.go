package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// gateway is a machine: a root of its own in which weir and weir-boot lie, and what systemd does with them. keep is its only goroutine; mu guards what follows it.
type gateway struct {
	name, root, config string
	env                []string
	ended              chan struct{} // keep has returned

	mu     sync.Mutex
	over   bool
	child  *rig.Child
	ran    []string // versions, in the order of the starts
	starts int
	kills  int
	failed error // it cannot be kept running
}

// gatewayConfig: windows that are open over upgrades, rows that carry the one before of their key. Both sinks exactly once; one leaves as soon as it may.
const gatewayConfig = `
gateway: NAME
state_dir: ROOT/var/lib/weir
security: {allow_private: true}
fleet: {root: ROOT/etc/weir/fleet/root.json, channel: stable, poll: 10s, doorbell: {broker: rig, topic: fleet/stable}}
upgrade: {backend: self, probation: 0s}
central: {url: "s3://BUCKET/central", endpoint: "http://STORE", credentials_file: CREDENTIALS, interval: 1h, fence_poll: 1h, timeout: 2m}
journal: {segment: 256KiB, reserve: 1MiB, max_bytes: 64MiB, compress: false}
brokers:
  rig: {url: "tcp://BROKER", client_id: weir-NAME}
sources:
  a:
    mqtt: {broker: rig, topic: "t/NAME/{device}", qos: 1}
    decode: json
    fields: {id: int, k: string, ts: int, v: int}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
pipelines:
  work:
    start: earliest
    checkpoint: {interval: 2s}
    steps:
      - {uid: w, from: a, by: [k], window: {tumbling: 10s}, aggregate: {n: count(), sum: sum(v)}}
      - {uid: chain, from: a, by: [k], lag: {value: id, as: before}}
      - {uid: short, from: chain, select: [id, k, before]}
    sinks:
      - {uid: win, from: w, http: {url: "URL"}}
      - {uid: rows, from: short, commit: immediate, http: {url: "URL"}}
`

// newGateway makes the machine, with the factory's program. Nothing runs yet.
func newGateway(dir, name string, places *strings.Replacer, rootDocument, factory string, env []string) (*gateway, error) {
	g := &gateway{name: name, root: filepath.Join(dir, name), env: env}
	g.config = filepath.Join(g.root, "etc", "weir", "weir.yaml")
	for _, d := range []string{"usr/bin", "etc/weir/fleet", "run/weir", "var/lib/weir", "plant"} {
		if err := os.MkdirAll(filepath.Join(g.root, d), 0o755); err != nil {
			return nil, err
		}
	}
	document, err := os.ReadFile(rootDocument)
	text := strings.NewReplacer("NAME", name, "ROOT", g.root).Replace(places.Replace(gatewayConfig))
	return g, errors.Join(err,
		os.WriteFile(filepath.Join(g.root, "etc/weir/fleet/root.json"), document, 0o644),
		os.WriteFile(g.config, []byte(text), 0o644),
		os.Link(factory, filepath.Join(g.root, "usr/bin/weir")))
}

// start has it run until stop or kill.
func (g *gateway) start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over, g.ended = false, make(chan struct{})
	go g.keep(g.ended) // ends with stop or kill, which wait for it
}

// keep is the service manager: it starts the unit again whenever its process ends, however.
func (g *gateway) keep(ended chan struct{}) {
	defer close(ended)
	for {
		g.mu.Lock()
		if g.over {
			g.mu.Unlock()
			return
		}
		child, bad, err := g.boot()
		g.child, g.failed = child, err
		g.mu.Unlock()
		if err != nil {
			return
		}
		if bad == "silent" { // its start never comes to an end: TimeoutStartSec=
			select {
			case <-child.Done():
			case <-time.After(time.Second):
				child.Kill()
			}
		}
		<-child.Done()
		if child.Killed() {
			g.mu.Lock()
			g.kills++
			g.mu.Unlock()
		}
	}
}

// boot is one start of the unit: the helper's three lines, then what it has linked.
func (g *gateway) boot() (child *rig.Child, bad string, err error) {
	g.starts++
	env := append([]string{fmt.Sprintf("INVOCATION_ID=%s-%d", g.name, g.starts), "WEIR_BOOT_ROOT=" + g.root, "STATE_DIRECTORY=" + filepath.Join(g.root, "var/lib/weir"), "WEIR_TRIAL=100ms",
		"WEIR_PLANT=" + filepath.Join(g.root, "plant")}, g.env...)
	for _, line := range []string{"link", "count", "settle"} {
		helper, err := rig.StartChild(filepath.Join(g.root, "boot.log"), env, bootFile, line)
		if err != nil {
			return nil, "", err
		}
		<-helper.Done() // its exit code keeps no start from running ("-" in the unit)
	}
	program, err := filepath.EvalSymlinks(filepath.Join(g.root, "var/lib/weir-boot/current"))
	if err != nil {
		return nil, "", fmt.Errorf("nothing is linked: %w", err)
	}
	version, bad := tail(filepath.Join(program, "weir"))
	g.ran = append(g.ran, version)
	child, err = rig.StartChild(g.log(), env, filepath.Join(program, "weir"), "run", "-c", g.config)
	return child, bad, err
}

func (g *gateway) log() string { return filepath.Join(g.root, "agent.log") }

// stop is SIGTERM, and no start behind it.
func (g *gateway) stop() error {
	g.mu.Lock()
	g.over = true
	child := g.child
	g.mu.Unlock()
	var err error
	if child != nil {
		err = child.Stop(rig.Patience)
	}
	<-g.ended
	return err
}

// kill is kill -9, and no start behind it.
func (g *gateway) kill() {
	g.mu.Lock()
	g.over = true
	if g.child != nil {
		g.child.Kill()
	}
	ended := g.ended
	g.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// dieAt has the agent killed at its next step of that name, once.
func (g *gateway) dieAt(step string) error {
	file := filepath.Join(g.root, "plant", "step")
	if err := os.Remove(filepath.Join(g.root, "plant", "reached")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(file+".new", []byte(step), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// died tells that the planted kill has come.
func (g *gateway) died() bool {
	_, err := os.Stat(filepath.Join(g.root, "plant", "reached"))
	return err == nil
}

// has tells whether it has ever run a version, and which it ran last.
func (g *gateway) has(version string) (ever bool, last string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.ran {
		ever = ever || v == version
		last = v
	}
	return ever, last
}

func (g *gateway) started() int { g.mu.Lock(); defer g.mu.Unlock(); return g.starts }
func (g *gateway) broken() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// status asks the agent; nil: it does not answer.
func (g *gateway) status(ctx context.Context) *api.Status {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s, err := api.Dial(filepath.Join(g.root, "var/lib/weir/weir.sock")).Status(ctx)
	if err != nil {
		return nil
	}
	return &s
}

// runs: no upgrade is under way, the broker's session is there, and the pipeline runs.
func runs(s *api.Status) bool {
	if s == nil || len(s.Sessions) != 1 || s.Sessions[0].State != "ready" || len(s.Pipelines) != 1 || s.Pipelines[0].State != "running" || s.Fleet == nil {
		return false
	}
	u := s.Upgrade
	return u == nil || u.State == "" || u.State == "committed" || u.State == "rolled back" || u.State == "failed"
}
