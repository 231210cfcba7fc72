package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/uplink"
)

// Legacy is where a replacement finds what the device before it has left.
type Legacy interface {
	// Look tells whether there is anything of a gateway.
	Look(ctx context.Context, gateway string) error
	// Leave puts a savepoint of each pipeline of a gateway into a directory, each whole or not at all, and tells of each. A pipeline whose state cannot be had has an Err. Called again
	// it replaces them by what is newest then; pieces that it keeps for that lie in directories that end with offsite.PartsSuffix.
	Leave(ctx context.Context, gateway, into string) ([]Left, error)
}

// Left is what is left of a pipeline.
type Left struct {
	Pipeline string // its name in the config of the device before
	File     string // of a savepoint
	Note     string // what the operator should know of it
	Err      error
}

// TakeoverOptions say what is taken over.
type TakeoverOptions struct {
	Gateway string
	From    Legacy
	// Pipelines are taken over; none: all of the config.
	Pipelines []string
	// AcceptLoss are pipelines that may start empty, since nothing is left of them.
	AcceptLoss        []string
	AllowDroppedState bool

	claims claims             // of tests
	fault  func(string) error // planted by tests: an error is a crash behind that step
}

// TakenOver tells of a replacement.
type TakenOver struct {
	Gateway     string              `json:"gateway"`
	Incarnation string              `json:"incarnation"`
	Pipelines   []TakenOverPipeline `json:"pipelines"`
	Left        []string            `json:"left,omitempty"` // pipelines of the device before that this config does not have
	Notes       []string            `json:"notes,omitempty"`
}

// TakenOverPipeline is one pipeline. Loss nil: it starts empty.
type TakenOverPipeline struct {
	Name string `json:"name"`
	UUID string `json:"uuid,omitempty"`
	Loss *Loss  `json:"loss,omitempty"`
	// State is the last record that the state has; those behind it up to Loss.Position were shipped and are replayed.
	State uint64 `json:"state,omitempty"`
}

// takeoverFile in state_dir says that a replacement is under way. It is durable before anything is claimed or written, and goes last: until then no agent starts here, and the
// restore does it all again.
const takeoverFile = "takeover.json"

// refuseCutShort is the error of an agent that finds half a replacement.
func refuseCutShort(stateDir string) error {
	if _, err := os.Stat(filepath.Join(stateDir, takeoverFile)); err == nil {
		return fmt.Errorf("the restore that began in %s was cut short: run weir restore again", stateDir)
	}
	return nil
}

// Takeover makes an empty state_dir that of a device in another's place (RULES 23, 27): it fetches what the device before has left and judges it, claims the gateway under a new major,
// which fences that device, fetches what has come in between, and orders its restore at the next start, under a new generation. What must be refused fences nobody. A crash anywhere
// leaves a state_dir in which no agent starts and the same call begins anew.
func Takeover(ctx context.Context, cfg *config.Config, o TakeoverOptions) (*TakenOver, error) {
	dir := cfg.StateDir.Value
	lock, err := LockStateDir(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if o.Gateway == "" || cfg.Gateway.Value != "" && cfg.Gateway.Value != o.Gateway {
		return nil, fmt.Errorf("the config is of gateway %q: it must be %q, whose place this device takes; or leave the gateway's name out of the config", cfg.Gateway.Value, o.Gateway)
	}
	if o.fault == nil {
		o.fault = func(string) error { return nil }
	}
	if err := beginTakeover(dir, o.Gateway); err != nil {
		return nil, err
	}
	if err := o.fault("begun"); err != nil {
		return nil, err
	}
	t := &takeover{dir: dir, o: o, told: &TakenOver{Gateway: o.Gateway}, board: identity.ReadBoard(cfg.BoardSerial, os.ReadFile), poll: cmp.Or(cfg.Central.FencePoll, pollDefault), journal: journalConfig(cfg)}
	for _, p := range cfg.Pipelines {
		if p.Restart.Failover == config.FailoverRegion {
			t.wanted = append(t.wanted, p.Regions()...)
		} else {
			t.wanted = append(t.wanted, p)
		}
	}
	if t.claims = o.claims; t.claims == nil {
		if t.claims, err = openClaims(cfg, o.Gateway); err != nil {
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
	o       TakeoverOptions
	claims  claims
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
	if err := t.o.fault("judged"); err != nil {
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
	if err := t.o.fault("fetched"); err != nil {
		return err
	}
	if err := t.takeRecords(ctx); err != nil {
		return err
	}
	if err := t.o.fault("journaled"); err != nil {
		return err
	}
	registry, err := OpenRegistry(disk.OS, t.dir)
	if err != nil {
		return err
	}
	registry.SetGateway(t.o.Gateway)
	for _, p := range t.wanted {
		if err := t.order(registry, p); err != nil {
			return fmt.Errorf("pipeline %s: %w", p.Name.Value, err)
		}
		if err := t.o.fault("ordered " + p.Name.Value); err != nil {
			return err
		}
	}
	if err := registry.write(); err != nil {
		return err
	}
	if err := t.o.fault("registered"); err != nil {
		return err
	}
	if err := record.Save(disk.OS, t.dir); err != nil {
		return err
	}
	if err := t.o.fault("incarnated"); err != nil {
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
	return major, t.o.fault("claimed")
}

// above is the least major above those that have left anything.
func (t *takeover) above() uint32 {
	most := uint64(1)
	for _, f := range t.left {
		most = max(most, f.Head.Major)
	}
	return uint32(most) + 1
}

// fetch gets what is left and judges, before anything is ordered, whether the config's plans can go on from it.
func (t *takeover) fetch(ctx context.Context) error {
	into := filepath.Join(t.dir, "savepoints")
	if err := disk.OS.MkdirAll(into); err != nil {
		return fmt.Errorf("make %s: %w", into, err)
	}
	all, err := t.o.From.Leave(ctx, t.o.Gateway, into)
	if err != nil {
		return fmt.Errorf("fetch what gateway %s has left: %w", t.o.Gateway, err)
	}
	t.left, t.files = map[string]*savepoint.File{}, map[string]string{}
	t.told.Left, t.told.Notes, t.fetched = nil, nil, nil
	gone := map[string]error{}
	for _, l := range all {
		t.fetched = append(t.fetched, l.File)
		if !slices.ContainsFunc(t.wanted, func(p *config.Pipeline) bool { return p.Name.Value == l.Pipeline }) {
			t.told.Left = append(t.told.Left, l.Pipeline)
			continue
		}
		f, err := (*savepoint.File)(nil), l.Err
		if err == nil {
			f, err = ReadSavepoint(ctx, l.File)
		}
		if err != nil {
			gone[l.Pipeline] = err
			continue
		}
		t.left[l.Pipeline], t.files[l.Pipeline] = f, l.File
		if l.Note != "" {
			t.told.Notes = append(t.told.Notes, fmt.Sprintf("pipeline %s: %s", l.Pipeline, l.Note))
		}
	}
	var problems []error
	for _, p := range t.wanted {
		name := p.Name.Value
		f := t.left[name]
		switch {
		case !t.asked(p):
			delete(t.left, name)
		case f == nil && !accepted(t.o.AcceptLoss, p):
			problems = append(problems, fmt.Errorf("pipeline %s: nothing is left of it%s; --accept-loss %s starts it empty", name, because(gone[name]), name))
		case f != nil:
			if _, err := savepoints.Judge(&f.Head, f.Counts(), p.Graph, t.o.AllowDroppedState); err != nil {
				problems = append(problems, fmt.Errorf("pipeline %s: %w", name, err))
			}
		}
	}
	if len(problems) > 0 {
		t.close()
	}
	return errors.Join(problems...)
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " that can be read: " + err.Error()
}

func (t *takeover) asked(p *config.Pipeline) bool {
	return len(t.o.Pipelines) == 0 || accepted(t.o.Pipelines, p)
}

func accepted(names []string, p *config.Pipeline) bool {
	return slices.Contains(names, p.Name.Value) || p.Whole != nil && slices.Contains(names, p.Whole.Name.Value)
}

// order makes one pipeline go on at the next start: under the UUID that its streams upstream have.
func (t *takeover) order(r *Registry, p *config.Pipeline) error {
	name := p.Name.Value
	f := t.left[name]
	if f == nil {
		t.told.Pipelines = append(t.told.Pipelines, TakenOverPipeline{Name: name})
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
	err = writeRestore(dir, api.RestoreOptions{File: t.files[name], Claim: true, Takeover: true, Behind: behind, Replay: replay, AcceptGap: true, AllowDroppedState: t.o.AllowDroppedState})
	if err != nil {
		return err
	}
	r.Pipelines[name] = id.String()
	t.told.Pipelines = append(t.told.Pipelines, TakenOverPipeline{Name: name, UUID: id.String(), Loss: &loss, State: f.Head.Position})
	return nil
}

// behind is the highest position that anything left stands at.
func (t *takeover) behind() (high uint64) {
	for _, f := range t.left {
		high = max(high, f.Head.Position)
	}
	return high
}

func (t *takeover) close() {
	for _, f := range t.left {
		_ = f.Close() // only read
	}
	t.left = nil
}

// removeParts removes the pieces that the savepoints were made of.
func (t *takeover) removeParts() error {
	for _, file := range t.fetched {
		if err := offsite.RemoveParts(disk.OS, file); err != nil {
			return fmt.Errorf("remove the pieces of %s: %w", file, err)
		}
	}
	return nil
}

// pollDefault is how long the device before is taken to go on where no central store tells it.
const pollDefault = 30 * time.Second

// harmless are names in a state_dir that nobody has worked in.
var harmless = []string{"lock", "weir.sock", "lost+found", takeoverFile, takeoverFile + ".tmp", "identity"}

// beginTakeover refuses a state_dir that is somebody's, and clears one of what a restore that was cut short has left.
func beginTakeover(dir, gateway string) error {
	name := filepath.Join(dir, takeoverFile)
	_, err := os.Stat(name)
	again := err == nil
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into state_dir: %w", err)
	}
	for _, e := range entries {
		if slices.Contains(harmless, e.Name()) {
			continue
		}
		if !again {
			return fmt.Errorf("state_dir %s is not empty: it has %s; a device takes another's place with an empty one", dir, e.Name())
		}
		if err := clearOf(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("clear state_dir of what a restore that was cut short has left: %w", err)
		}
	}
	b, err := json.Marshal(map[string]string{"gateway": gateway})
	if err == nil {
		err = disk.WriteFileAtomic(disk.OS, name, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("begin the restore: %w", err)
	}
	return nil
}

// clearOf removes what a restore that was cut short has made; pieces that were fetched stay: they are known by their sums.
func clearOf(name string) error {
	if filepath.Base(name) != "savepoints" {
		return os.RemoveAll(name)
	}
	entries, err := os.ReadDir(name)
	for _, e := range entries {
		if err == nil && !strings.HasSuffix(e.Name(), offsite.PartsSuffix) {
			err = os.RemoveAll(filepath.Join(name, e.Name()))
		}
	}
	return err
}

func endTakeover(dir string) error {
	err := disk.OS.Remove(filepath.Join(dir, takeoverFile))
	if err == nil {
		err = disk.OS.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("end the restore: %w", err)
	}
	return nil
}

// Directory is a Legacy of savepoint files in a directory.
type Directory string

// Look reads the files.
func (d Directory) Look(ctx context.Context, gateway string) error {
	_, err := d.newest(ctx, gateway)
	return err
}

// Leave copies the newest savepoint of each of the gateway's pipelines. A file that is not whole is passed over when there is an older one.
func (d Directory) Leave(ctx context.Context, gateway, into string) (list []Left, err error) {
	newest, err := d.newest(ctx, gateway)
	if err != nil {
		return nil, err
	}
	for pipeline, name := range newest {
		to := filepath.Join(into, "restored-"+strings.TrimPrefix(filepath.Base(name), "restored-"))
		if err := copyFile(name, to); err != nil {
			return nil, fmt.Errorf("copy savepoint %s: %w", name, err)
		}
		list = append(list, Left{Pipeline: pipeline, File: to})
	}
	slices.SortFunc(list, func(a, b Left) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return list, nil
}

// newest gives the file of each pipeline; an error when there is none at all.
func (d Directory) newest(ctx context.Context, gateway string) (files map[string]string, err error) {
	names, err := filepath.Glob(filepath.Join(string(d), "*"+SavepointSuffix))
	if err != nil {
		return nil, err
	}
	files = map[string]string{}
	heads := map[string]*savepoint.Head{}
	var bad []error
	for _, name := range names {
		f, err := ReadSavepoint(ctx, name)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		h := &f.Head
		if err := f.Close(); err != nil {
			return nil, err
		}
		if n := heads[h.Pipeline]; h.Gateway == gateway && (n == nil || newer(h, n)) {
			heads[h.Pipeline], files[h.Pipeline] = h, name
		}
	}
	if len(files) == 0 {
		return nil, errors.Join(append(bad, fmt.Errorf("%w: no savepoint of gateway %s in %s", fs.ErrNotExist, gateway, d))...)
	}
	return files, nil
}

// copyFile makes a file that is whole or absent, durably. A repeat is harmless.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to + ".tmp")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := os.Rename(to+".tmp", to); err != nil {
		return err
	}
	return disk.OS.SyncDir(filepath.Dir(to))
}

func newer(a, b *savepoint.Head) bool {
	x, y := uplink.Incarnation{Major: uint32(a.Major), Minor: uint32(a.Minor)}, uplink.Incarnation{Major: uint32(b.Major), Minor: uint32(b.Minor)}
	if x != y {
		return y.Less(x)
	}
	return a.Checkpoint > b.Checkpoint
}
