//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/links"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/pace"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/pipeline/mqtt"
	"github.com/weirstream/weir/store/disk"
)

// fleetSide is this gateway's side of its fleet: the channel (agent/channel), and what it can do here. A nil one is of a gateway that nobody directs.
type fleetSide struct {
	agent   *Agent
	channel *channel.Channel // nil: broken says why
	broken  string           // why nobody directs this gateway; "": it is directed
	leave   chan struct{}    // closed when this process is to end and be started again
	once    sync.Once
	digest  func() string // of the program that runs, hex; "": it cannot be read

	tries map[string]*uploadTry // of files that are to be handed in. The labourer's alone
}

// openFleet makes the channel of the config's fleet, if there is one. What is wrong with it keeps no pipeline from running: it is told.
func (a *Agent) openFleet() {
	f := &a.config.Fleet
	if f.Channel.Value == "" || !a.runs() {
		return
	}
	s := &fleetSide{agent: a, leave: make(chan struct{}), tries: map[string]*uploadTry{}}
	s.digest = sync.OnceValue(func() string {
		sum, _, err := sumOf("/proc/self/exe")
		if err != nil {
			a.log.Warn("the program that runs cannot be read", "error", err)
		}
		return sum
	})
	a.fleet = s
	if err := s.open(); err != nil {
		s.broken = err.Error()
		a.log.Error("fleet does not direct this gateway", "error", err)
	}
}

func (s *fleetSide) open() error {
	a := s.agent
	trust, err := a.upgrader.trust()
	if err != nil {
		return err
	}
	if a.offsites == nil {
		return errors.New("the config has no central store")
	}
	if a.unregistered && a.config.Gateway.Value == "" {
		return errors.New("which gateway this is cannot be told: the registry has its name, and cannot be read; set gateway in the config")
	}
	c := channel.Config{
		Gateway: a.gateway(), Channel: a.config.Fleet.Channel.Value, Board: a.config.On.ID, Depot: depot.Depot{Bucket: a.offsites.bucket}, Trust: trust, Roots: a.upgrader.store.Dir, FS: disk.OS, Dir: s.dir(),
		Pace: fleetPace(a.config), Timeout: a.config.Central.Timeout, Acts: s, Clock: fleetClock{a}, Key: s.key, Log: a.log, Died: a.die,
	}
	if d := a.config.Fleet.Doorbell; d.Broker.Value != "" {
		b := a.config.Broker(d.Broker.Value)
		settings := links.BrokerSettings(b)
		settings.Dates, settings.AllowPlaintext = a.clock.Wall, a.config.Security.AllowPlaintext
		if settings.ClientID == "" {
			settings.ClientID = "weir-" + a.gateway()
		}
		if c.Bell, err = mqtt.NewBell(settings, d.Topic, a.log); err != nil {
			return err
		}
	}
	s.channel = channel.New(c)
	return s.channel.Unread()
}

// fleetPace is how often a gateway looks, and how spread out.
func fleetPace(c *config.Config) pace.Pace {
	return pace.Pace{Poll: fleetPollOf(c.Fleet.Poll), Spread: c.Fleet.Spread}
}

// dir is where the channel keeps what it has done.
func (s *fleetSide) dir() string { return filepath.Join(s.agent.config.StateDir.Value, "fleet") }

// key is what this gateway signs its reports with, as it is now.
func (s *fleetSide) key() (signed.Signer, error) {
	key, err := offsite.SigningKey(s.agent.config)
	if err != nil {
		return nil, err
	}
	return signed.KeySigner(key), nil
}

// run looks, acts and reports until ctx ends.
func (s *fleetSide) run(ctx context.Context) error {
	if s == nil || s.channel == nil {
		return nil
	}
	return s.channel.Run(ctx)
}

// leaving is closed when this process is to end and be started again.
func (s *fleetSide) leaving() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.leave
}

// restart ends this process in order; the service manager starts it again.
func (s *fleetSide) restart(why string) {
	s.once.Do(func() {
		s.agent.log.Info("this process ends and is started again", "why", why)
		close(s.leave)
	})
}

func (s *fleetSide) status() *api.FleetStatus {
	if s == nil {
		return nil
	}
	out := &api.FleetStatus{Channel: s.agent.config.Fleet.Channel.Value, Broken: s.broken, ContactSeconds: -1, AgeSeconds: -1}
	if s.channel == nil {
		return out
	}
	st := s.channel.Status()
	out.Root, out.Serials, out.Rollout, out.Halted, out.Bell, out.Error, out.Begun, out.Unsent = st.Root, st.Serials, st.Rollout, st.Halted, st.Heard, st.Error, st.Begun, st.Unsent
	out.Polls, out.Failures, out.Rings, out.BadRings, out.Reports, out.Writes, out.Commands, out.Refused = st.Polls, st.Failures, st.Rings, st.BadRings, st.Reports, st.LedgerSave, st.Commands, st.Refused
	if !st.Contact.IsZero() {
		out.ContactSeconds = time.Since(st.Contact).Seconds()
	}
	if stamp := s.agent.clock.Stamp(); st.CreatedMs > 0 && stamp.Trusted {
		out.AgeSeconds = float64(max(stamp.Wall-st.CreatedMs, 0)) / 1e3
	}
	return out
}

// fleetProblems tells what somebody should look at.
func fleetProblems(f *api.FleetStatus) (list []string) {
	switch {
	case f == nil:
		return nil
	case f.Broken != "":
		return []string{"nobody directs this gateway from afar: " + f.Broken + "; docs/commands.md tells the way out"}
	case f.Error != "":
		list = append(list, "the fleet's documents were not read: "+f.Error)
	}
	if n := len(f.Refused); n > 0 {
		list = append(list, fmt.Sprintf("documents of the fleet were refused, for %d reasons: see the log, and docs/commands.md", n))
	}
	return list
}

// fleetClock is the agent's clock, as the channel asks for it.
type fleetClock struct{ agent *Agent }

// Now is Unix ms, and whether dates may be judged by it.
func (c fleetClock) Now() (int64, bool) {
	s := c.agent.clock.Stamp()
	return s.Wall, s.Trusted
}

// Told raises the clock's floor.
func (c fleetClock) Told(ms int64) { c.agent.clock.Told(ms) }

// State is what this gateway says of itself.
func (s *fleetSide) State() document.State {
	a := s.agent
	st, rec := a.Status(), a.upgrader.record()
	d := document.State{Arch: archOf(), Version: Version(), Digest: s.digest(), Release: a.upgrader.runs(&rec), Pipeline: map[string]string{}, Upgrade: progressOf(&rec)}
	for _, p := range st.Pipelines {
		if len(d.Pipeline) < 1024 {
			d.Pipeline[p.Name] = p.State
		}
	}
	for _, p := range st.Problems {
		d.Problems = append(d.Problems, p)
	}
	return d
}

// Fenced tells why this device no longer speaks for its gateway.
func (s *fleetSide) Fenced() error { return s.agent.fence.err() }
