// Package takeover has an empty state_dir take the place of a device that is gone: it finds what that device has left, in the central store or a directory, judges it, claims the gateway, and orders what the
// first start restores and replays. No agent runs meanwhile; what it must keep is in RULES 23 to 29.
package takeover

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/space"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// Options say what is taken over.
type Options struct {
	Gateway string
	From    Legacy
	// Pipelines are taken over; none: all of the config.
	Pipelines []string
	// AcceptLoss are pipelines that may start empty, since nothing is left of them.
	AcceptLoss        []string
	AllowDroppedState bool

	Claims offsite.Claims     // of tests
	Fault  func(string) error // planted by tests: an error is a crash behind that step
}

// TakenOver tells of a replacement.
type TakenOver struct {
	Gateway     string     `json:"gateway"`
	Incarnation string     `json:"incarnation"`
	Pipelines   []Pipeline `json:"pipelines"`
	Left        []string   `json:"left,omitempty"` // pipelines of the device before that this config does not have
	Notes       []string   `json:"notes,omitempty"`
}

// Pipeline is one pipeline. Loss nil: it starts empty.
type Pipeline struct {
	Name string `json:"name"`
	UUID string `json:"uuid,omitempty"`
	Loss *Loss  `json:"loss,omitempty"`
	// State is the last record that the state has; those behind it up to Loss.Position were shipped and are replayed.
	State uint64 `json:"state,omitempty"`
}

// Run makes an empty state_dir that of a device in another's place (RULES 23, 27): it fetches what the device before has left and judges it, claims the gateway under a new major,
// which fences that device, fetches what has come in between, and orders its restore at the next start, under a new generation. What must be refused fences nobody. A crash anywhere
// leaves a state_dir in which no agent starts and the same call begins anew.
func Run(ctx context.Context, cfg *config.Config, o Options) (*TakenOver, error) {
	dir := cfg.StateDir.Value
	lock, err := statedir.Acquire(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if o.Gateway == "" || cfg.Gateway.Value != "" && cfg.Gateway.Value != o.Gateway {
		return nil, fmt.Errorf("the config is of gateway %q: it must be %q, whose place this device takes; or leave the gateway's name out of the config", cfg.Gateway.Value, o.Gateway)
	}
	if o.Fault == nil {
		o.Fault = func(string) error { return nil }
	}
	if err := beginTakeover(dir, o.Gateway); err != nil {
		return nil, err
	}
	if err := o.Fault("begun"); err != nil {
		return nil, err
	}
	t := &takeover{dir: dir, o: o, told: &TakenOver{Gateway: o.Gateway}, board: identity.ReadBoard(cfg.BoardSerial, os.ReadFile), poll: cmp.Or(cfg.Central.FencePoll, pollDefault), journal: space.Journal(cfg)}
	for _, p := range cfg.Pipelines {
		if p.Restart.Failover == config.FailoverRegion {
			t.wanted = append(t.wanted, p.Regions()...)
		} else {
			t.wanted = append(t.wanted, p)
		}
	}
	if t.claims = o.Claims; t.claims == nil {
		if t.claims, err = offsite.OpenClaims(cfg, o.Gateway, nil); err != nil {
			return nil, err
		}
		if t.claims != nil {
			defer t.claims.Close()
		}
	}
	if err := t.run(ctx); err != nil {
		return nil, err
	}
	return t.told, nil
}

type takeover struct {
	dir     string
	o       Options
	claims  offsite.Claims
	board   identity.Board
	wanted  []*config.Pipeline
	left    map[string]*savepoint.File
	files   map[string]string
	fetched []string // files of all that is left, also of what this config does not have
	takenMs int64
	poll    time.Duration
	told    *TakenOver
	journal log.Config
	records Records
}

func (t *takeover) run(ctx context.Context) error {
	if err := t.o.From.Look(ctx, t.o.Gateway); err != nil { // a wrong name must fence nobody
		return fmt.Errorf("look for what gateway %s has left: %w", t.o.Gateway, err)
	}
	if err := t.fetch(ctx); err != nil { // nor must a restore that is refused
		return err
	}
	defer func() { t.close() }()
	if err := t.o.Fault("judged"); err != nil {
		return err
	}
	major, err := t.claim(ctx)
	if err != nil {
		return err
	}
	// From now on the device before leaves nothing more: what is fetched is the last.
	t.close()
	if err := t.fetch(ctx); err != nil {
		return err
	}
	if err := t.removeParts(); err != nil {
		return err
	}
	if above := t.above(); major < above { // no central store, or one that has forgotten a claim
		if major = above; t.claims != nil {
			if major, err = t.claims.Take(ctx, identity.Token(t.board), above); err != nil {
				return fmt.Errorf("claim gateway %s: %w", t.o.Gateway, err)
			}
		}
	}
	record := (*identity.Record)(nil).Successor(t.board, major)
	record.LeastGeneration = identity.GenerationsOf(record.Major)
	t.told.Incarnation = record.Incarnation().String()
	if err := t.o.Fault("fetched"); err != nil {
		return err
	}
	if err := t.takeRecords(ctx); err != nil {
		return err
	}
	if err := t.o.Fault("journaled"); err != nil {
		return err
	}
	registry, err := statedir.OpenRegistry(disk.OS, t.dir)
	if err != nil {
		return err
	}
	registry.SetGateway(t.o.Gateway)
	for _, p := range t.wanted {
		if err := t.order(registry, p); err != nil {
			return fmt.Errorf("pipeline %s: %w", p.Name.Value, err)
		}
		if err := t.o.Fault("ordered " + p.Name.Value); err != nil {
			return err
		}
	}
	if err := registry.Save(); err != nil {
		return err
	}
	if err := t.o.Fault("registered"); err != nil {
		return err
	}
	if err := record.Save(disk.OS, t.dir); err != nil {
		return err
	}
	if err := t.o.Fault("incarnated"); err != nil {
		return err
	}
	return endTakeover(t.dir)
}

// claim takes a major; 0: there is no central store, and it follows from what is fetched.
func (t *takeover) claim(ctx context.Context) (major uint32, err error) {
	if t.claims != nil {
		if major, err = t.claims.Take(ctx, identity.Token(t.board), 2); err != nil {
			return 0, fmt.Errorf("claim gateway %s: %w", t.o.Gateway, err)
		}
	}
	t.takenMs = time.Now().UnixMilli()
	return major, t.o.Fault("claimed")
}

// above is the least major above those that have left anything.
func (t *takeover) above() uint32 {
	most := uint64(1)
	for _, f := range t.left {
		most = max(most, f.Head.Major)
	}
	return uint32(most) + 1
}

// order makes one pipeline go on at the next start: under the UUID that its streams upstream have.
func (t *takeover) order(r *statedir.Registry, p *config.Pipeline) error {
	name := p.Name.Value
	f := t.left[name]
	if f == nil {
		t.told.Pipelines = append(t.told.Pipelines, Pipeline{Name: name})
		return nil
	}
	var id snapshot.UUID
	copy(id[:], f.Head.UUID)
	clocks, err := clocksOf(f, p.Graph)
	if err != nil {
		return err
	}
	loss := lossOf(&f.Head, clocks, latenessOf(p), t.takenMs, t.poll)
	behind, replay := t.behind(), t.records.Last
	switch {
	case replay == 0:
	case replay <= f.Head.Position: // its state has them all
		behind, replay = f.Head.Position, 0
	default: // they are where they were
		behind = f.Head.Position
		loss.Position, loss.After, loss.LeftMs = replay, replay, max(loss.LeftMs, t.records.WallMs)
	}
	dir := filepath.Join(t.dir, "pipelines", id.String())
	if err := disk.OS.MkdirAll(dir); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	if err := loss.save(dir); err != nil {
		return err
	}
	err = restore.Order(dir, api.RestoreOptions{File: t.files[name], Claim: true, Takeover: true, Behind: behind, Replay: replay, AcceptGap: true, AllowDroppedState: t.o.AllowDroppedState})
	if err != nil {
		return err
	}
	r.Pipelines[name] = id.String()
	t.told.Pipelines = append(t.told.Pipelines, Pipeline{Name: name, UUID: id.String(), Loss: &loss, State: f.Head.Position})
	return nil
}

// behind is the highest position that anything left stands at.
func (t *takeover) behind() (high uint64) {
	for _, f := range t.left {
		high = max(high, f.Head.Position)
	}
	return high
}

// pollDefault is how long the device before is taken to go on where no central store tells it.
const pollDefault = 30 * time.Second
