package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/receiver"
)

// plant is all of a fleet: its store, its broker, the far end of its pipelines, its gateways, and what its operators have.
type plant struct {
	t        *testing.T
	dir      string
	store    *rig.S3
	depot    depot.Depot
	broker   *rig.Mosquitto
	receiver *receiver.Receiver
	gateways []*gateway
	devices  *rig.Publisher
	bell     *rig.Publisher
	rings    int
	patience time.Duration
	pause    time.Duration // between two questions to gateways

	factory string
	places  *strings.Replacer
	talking context.CancelFunc // ends the devices' talk; nil: they are silent
	talked  chan error
	sent    atomic.Int64 // messages to each gateway
	every   time.Duration
	shown   map[string]int // by gateway and place: bad documents that were put there
}

// factoryVersion is what the packages of the gateways bring.
const factoryVersion = "0.9.0"

// newPlant starts the servers, makes the keys and publishes the root, and makes n gateways. Nothing of them runs.
func newPlant(t *testing.T, n int, every time.Duration, env ...string) *plant {
	t.Helper()
	p := &plant{t: t, dir: t.TempDir(), patience: rig.Patience, pause: 100 * time.Millisecond, every: every, shown: map[string]int{}}
	for _, d := range []string{"store", "broker", "gw", "programs"} {
		p.must(os.Mkdir(filepath.Join(p.dir, d), 0o755))
	}
	p.store = rig.NeedS3(t, filepath.Join(p.dir, "store"), "fleet")
	b, err := bucket.OpenS3(&bucket.S3{Endpoint: "http://" + p.store.Addr, Bucket: p.store.Bucket, Prefix: "central", CredentialsFile: p.store.CredentialsFile, DialTimeout: rig.Patience})
	p.must(err)
	p.depot = depot.Depot{Bucket: b}
	p.broker, err = rig.StartMosquitto(filepath.Join(p.dir, "broker"), "")
	if errors.Is(err, rig.ErrNoMosquitto) {
		t.Skipf("NOT TESTED HERE: %v", err)
	}
	p.must(err)
	t.Cleanup(p.broker.Kill)
	p.serve()
	p.devices = rig.NewPublisher(rig.PublisherConfig{Addr: p.broker.Addr, ClientID: "devices", QoS: 1, Window: 100})
	t.Cleanup(p.devices.Close)
	p.bell = rig.NewPublisher(rig.PublisherConfig{Addr: p.broker.Addr, ClientID: "bell", QoS: 1, Window: 100})
	t.Cleanup(p.bell.Close)
	p.says(0, "", "keys", "init", p.at("keys"), "--fleet", "plant")
	p.operator(0, "root 1 is published", "fleet", "root", p.at("keys/root.1.json"))
	p.factory = p.at("programs/factory")
	p.must(program(p.factory, factoryVersion, ""))
	p.add(n, env...)
	return p
}

// serve is the far end of the pipelines.
func (p *plant) serve() {
	var err error
	p.receiver, err = receiver.Open(receiver.Options{Path: p.at("receiver.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	p.must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	server := &http.Server{Handler: p.receiver}
	ended := make(chan struct{})
	go func() { defer close(ended); server.Serve(l) }() // ends with Close, which the clean-up waits for
	p.t.Cleanup(func() { server.Close(); <-ended; p.receiver.Close() })
	p.places = strings.NewReplacer("BUCKET", p.store.Bucket, "STORE", p.store.Addr, "CREDENTIALS", p.store.CredentialsFile, "BROKER", p.broker.Addr, "URL", "http://"+l.Addr().String()+"/weir")
}

// add makes n more gateways.
func (p *plant) add(n int, env ...string) (more []*gateway) {
	p.t.Helper()
	for range n {
		g, err := newGateway(p.at("gw"), fmt.Sprintf("gw-%03d", len(p.gateways)), p.places, p.at("keys/root.1.json"), p.factory, env)
		p.must(err)
		p.t.Cleanup(g.kill)
		p.gateways, more = append(p.gateways, g), append(more, g)
	}
	return more
}

func (p *plant) at(name string) string { return filepath.Join(p.dir, name) }

func (p *plant) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// atOnce is how many gateways start at the same time.
const atOnce = 6

// start starts gateways, a few at a time, until each has its session and has read the store.
func (p *plant) start(list []*gateway) {
	p.t.Helper()
	for len(list) > 0 {
		some := list[:min(atOnce, len(list))]
		list = list[len(some):]
		for _, g := range some {
			g.start()
		}
		p.each("it runs, and has looked for documents", some, func(_ *gateway, s *api.Status) bool { return runs(s) && s.Fleet.Polls > 0 && s.Fleet.Bell })
	}
}

// talk has the devices send to every gateway until hush, one message each at a time.
func (p *plant) talk() {
	ctx, cancel := context.WithCancel(p.t.Context())
	p.talking, p.talked = cancel, make(chan error, 1)
	list := p.gateways
	go func() { p.talked <- p.send(ctx, list) }() // hush waits for it
	p.t.Cleanup(cancel)
}

func (p *plant) send(ctx context.Context, to []*gateway) error {
	for tick := time.NewTicker(p.every); ; {
		payload, err := json.Marshal(messageOf(int(p.sent.Load())))
		if err != nil {
			return err
		}
		m := messageOf(int(p.sent.Load()))
		for _, g := range to { // all of them have it, or the run has failed
			if err := p.devices.Publish(context.WithoutCancel(ctx), "t/"+g.name+"/"+m.K, false, payload); err != nil {
				return err
			}
		}
		p.sent.Add(1)
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return nil
		}
	}
}

// hush ends the talk with the messages that close every window, and gives how many came before.
func (p *plant) hush() int {
	p.t.Helper()
	p.talking()
	p.must(<-p.talked)
	n := int(p.sent.Load())
	payload, err := json.Marshal(flushOf(n))
	p.must(err)
	for _, g := range p.gateways {
		p.must(p.devices.Publish(p.t.Context(), "t/"+g.name+"/"+flushKey, false, payload))
	}
	p.must(p.devices.Flush(p.t.Context()))
	return n
}

// ring tells the gateways that there is something new.
func (p *plant) ring() {
	p.t.Helper()
	p.rings++
	p.must(p.bell.Publish(p.t.Context(), "fleet/stable", false, fmt.Append(nil, p.rings)))
	p.must(p.bell.Flush(p.t.Context()))
}

// await waits for a condition that gateways are asked for.
func (p *plant) await(what string, ok func() (done bool, standing string)) {
	p.t.Helper()
	p.awaitEvery(p.pause, what, ok)
}

// awaitTold waits for a condition that an operator's command tells of, which is a process each time.
func (p *plant) awaitTold(what string, ok func() (done bool, standing string)) {
	p.t.Helper()
	p.awaitEvery(time.Second, what, ok)
}

// awaitEvery gives up when nothing that the condition tells of has changed for the plant's patience.
func (p *plant) awaitEvery(pause time.Duration, what string, ok func() (done bool, standing string)) {
	p.t.Helper()
	last := ""
	for moved := time.Now(); ; time.Sleep(pause) {
		done, standing := ok()
		if done {
			return
		}
		if standing != last {
			last, moved = standing, time.Now()
		}
		if time.Since(moved) > p.patience {
			p.dump()
			p.t.Fatalf("in vain waited until %s: %s", what, standing)
		}
		for _, g := range p.gateways {
			if err := g.broken(); err != nil {
				p.dump()
				p.t.Fatalf("%s: %v", g.name, err)
			}
		}
	}
}

// each waits until every one of the gateways is as wanted. One that was is not asked again.
func (p *plant) each(what string, list []*gateway, ok func(*gateway, *api.Status) bool) {
	p.t.Helper()
	left := append([]*gateway(nil), list...)
	p.await("each: "+what, func() (bool, string) {
		var not []*gateway
		var names []string
		for _, g := range left {
			if s := g.status(p.t.Context()); s == nil || !ok(g, s) {
				not, names = append(not, g), append(names, g.name+" "+standingOf(s))
			}
		}
		left = not
		return len(left) == 0, strings.Join(names, ", ")
	})
}

// standingOf is where a gateway is, as far as that moves.
func standingOf(s *api.Status) string {
	if s == nil {
		return "does not answer"
	}
	text := s.Version
	if len(s.Pipelines) == 1 {
		text += " " + s.Pipelines[0].State
	}
	if s.Upgrade != nil {
		text += " " + s.Upgrade.State
	}
	if s.Fleet != nil {
		text += fmt.Sprintf(" serials %v", s.Fleet.Serials)
	}
	return text
}

// finish waits until all has arrived, stops the gateways and asks the oracle.
func (p *plant) finish(of []*gateway) (problems []string) {
	p.t.Helper()
	n := p.hush()
	p.awaitTold("everything has arrived", func() (bool, string) {
		all, err := judge(p.receiver, of, n)
		p.must(err)
		lost := 0
		for _, v := range all {
			lost += v.Lost
		}
		return lost == 0, fmt.Sprintf("%d are not there", lost)
	})
	for _, g := range of {
		if err := rig.CheckLedgerAt(p.t.Context(), filepath.Join(g.root, "var/lib/weir/weir.sock"), 10*time.Second); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", g.name, err))
		}
	}
	for _, g := range of {
		if err := g.stop(); err != nil {
			problems = append(problems, fmt.Sprintf("%s: graceful stop: %v", g.name, err))
		}
	}
	all, err := judge(p.receiver, of, n)
	p.must(err)
	got, lost, twice := 0, 0, 0
	for _, v := range all {
		got, lost, twice = got+v.Got, lost+v.Lost, twice+v.Duplicate
		if !v.OK() {
			problems = append(problems, v.String())
		}
	}
	p.t.Logf("%d gateways, %d messages to each, %d rows of %d streams at the receiver: lost %d, duplicate %d", len(of), n+1, got, len(all), lost, twice)
	return problems
}

// dump shows the ends of the logs of gateways that do not run as they should, a few of them.
func (p *plant) dump() {
	shown := 0
	for _, g := range p.gateways {
		if s := g.status(context.Background()); runs(s) || shown == 3 {
			continue
		}
		shown++
		for _, name := range []string{"boot.log", "agent.log"} {
			b, err := os.ReadFile(filepath.Join(g.root, name))
			if err == nil {
				p.t.Logf("%s %s:\n%s", g.name, name, b[max(0, len(b)-3000):])
			}
		}
	}
}
