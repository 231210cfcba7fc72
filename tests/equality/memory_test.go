package equality

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/state"
)

// saved is a committed checkpoint in memory.
type saved struct {
	position pipeline.Position
	specs    map[string]state.Spec
	entries  map[string]map[[2]string]string // uid/table -> (key, sub) -> value
	sinks    []pipeline.SinkMark
}

func (c *saved) Entries(uid, name string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	spec, ok := c.specs[uid+"/"+name]
	for k, v := range c.entries[uid+"/"+name] {
		if err := f([]byte(k[0]), []byte(k[1]), []byte(v)); err != nil {
			return spec, ok, err
		}
	}
	return spec, ok, nil
}
func (c *saved) Sinks() []pipeline.SinkMark  { return c.sinks }
func (c *saved) Position() pipeline.Position { return c.position }

// memoryKeeper commits checkpoints in the goroutine of the task that delivers last. mu guards everything.
type memoryKeeper struct {
	hide   func(uid string) bool // planted: tables that are not saved; nil: none
	forget bool                  // planted: the changes of an aborted checkpoint are not merged back (RULES 15)

	images  map[pipeline.Position]string // what checkpoints held; nil: nobody asks
	elapsed func(pipeline.Position) int64

	mu    sync.Mutex
	p     *exec.Pipeline
	abort func(uint64) bool
	id    uint64
	open  []pipeline.TaskSnapshot
	busy  bool
	kept  []*saved
	err   error
}

func (k *memoryKeeper) restore(back int) (pipeline.StateSource, error) {
	for ; back > 0 && len(k.kept) > 1; back-- {
		k.kept = k.kept[:len(k.kept)-1]
	}
	if len(k.kept) == 0 {
		return nil, nil
	}
	return k.kept[len(k.kept)-1], nil
}

func (k *memoryKeeper) begin(p *exec.Pipeline, abort func(uint64) bool) error {
	k.p, k.abort, k.open, k.busy = p, abort, nil, false
	return nil
}

func (k *memoryKeeper) checkpoint(ctx context.Context, _ bool) {
	k.mu.Lock()
	if k.busy { // one at a time, as in snapshot: else an abort would leave a hole (RULES 15)
		k.mu.Unlock()
		return
	}
	k.id++
	k.busy = true
	id := k.id
	k.mu.Unlock()
	_ = k.p.Inject(ctx, id) // fails only when the pipeline has ended
}

func (k *memoryKeeper) deliver(s pipeline.TaskSnapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = append(k.open, s)
	if len(k.open) < len(k.p.Tasks()) {
		return
	}
	next := &saved{position: s.Barrier.Position, specs: map[string]state.Spec{}, entries: map[string]map[[2]string]string{}}
	if n := len(k.kept); n > 0 {
		maps.Copy(next.specs, k.kept[n-1].specs)
		for name, m := range k.kept[n-1].entries {
			next.entries[name] = maps.Clone(m)
		}
	}
	failed := k.abort(s.Barrier.ID)
	for _, snap := range k.open {
		next.sinks = append(next.sinks, snap.Sinks...)
		for _, part := range snap.Parts {
			switch {
			case failed && k.forget:
				part.Frozen.Commit()
				continue
			case failed:
				part.Frozen.Abort()
				continue
			}
			if err := next.apply(part, k.hide != nil && k.hide(part.UID)); err != nil {
				k.err = err
			}
		}
	}
	if !failed {
		k.kept = append(k.kept, next)
		if k.images != nil {
			k.images[next.position] = next.image(k.elapsed(next.position))
		}
	}
	k.open, k.busy = nil, false
}

// apply puts the changes of a table into the checkpoint.
func (c *saved) apply(part pipeline.StatePart, hide bool) error {
	name := part.UID + "/" + part.Spec.Name
	c.specs[name] = part.Spec
	if c.entries[name] == nil {
		c.entries[name] = map[[2]string]string{}
	}
	err := part.Frozen.Encode(func(key, sub, val []byte, deleted bool) error {
		switch at := [2]string{string(key), string(sub)}; {
		case hide:
		case deleted:
			delete(c.entries[name], at)
		default:
			c.entries[name][at] = string(val)
		}
		return nil
	})
	part.Frozen.Commit()
	return err
}

// image is what the checkpoint holds, as text: but for what has expired at now, which goes when the table likes, and lists, whose cuts have no
// meaning.
func (c *saved) image(now int64) string {
	var lines []string
	for name, m := range c.entries {
		spec := c.specs[name]
		for at, val := range m {
			if spec.Kind == state.List || spec.TTL > 0 && int64(binary.BigEndian.Uint64([]byte(val[len(val)-8:]))) <= now-spec.TTL {
				continue
			}
			lines = append(lines, fmt.Sprintf("%s %x %x %x", name, at[0], at[1], val))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (k *memoryKeeper) crash() error { return k.err }
