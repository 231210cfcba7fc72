package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/fleet/strict"
	"github.com/weirstream/weir/uplink/bucket"
)

// heading is what all documents that direct gateways have.
type heading struct {
	fleet, scope string
	serial       uint64
	createdMs    int64
	done         uint64 // commands up to this serial were carried out by the device that had this place before
}

// read gets a document that has changed since it was read last, and has take look at its payload, behind the signatures. take tells what it is of, and use makes it count once its serial is durable. A document that is refused is no error: it does not count.
func (c *Channel) read(ctx context.Context, name, typ, scope string, take func(payload []byte) (heading, error), use func()) error {
	body, version, err := c.get(ctx, name, c.versions[name])
	switch {
	case errors.Is(err, bucket.ErrUnchanged), errors.Is(err, bucket.ErrNotFound):
		if errors.Is(err, bucket.ErrNotFound) {
			delete(c.stands, name)
		}
		if c.faults.saveAlways {
			return c.save()
		}
		return nil
	case err == nil:
		err = c.admit(body, typ, scope, take)
	}
	switch {
	case err == nil:
		c.stands[name] = true
		use()
	case reasonOf(err) == "":
		return err
	default:
		delete(c.stands, name)
		c.refused(name, body, err)
	}
	if version != "" {
		c.versions[name] = version // one that was refused is not read again until it changes
	}
	return nil
}

// get is one request.
func (c *Channel) get(ctx context.Context, name, version string) ([]byte, string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.Depot.Read(ctx, name, version)
}

// admit lets a document count, or says why not, in the order of fleet/DESIGN.md. Its serial is durable before it returns.
func (c *Channel) admit(body []byte, typ, scope string, take func([]byte) (heading, error)) error {
	payload, err := c.trust.Verify(body, typ)
	if err != nil {
		return err
	}
	h, err := take(payload)
	if err != nil {
		return err
	}
	if h.fleet != c.trust.Fleet() && !c.faults.anyFleet {
		return refuse(ReasonOther, "it is of fleet %s, and this gateway is of %s", h.fleet, c.trust.Fleet())
	}
	if h.scope != scope && !c.faults.anyPlace {
		return refuse(ReasonOther, "it is for %s, and lies where %s does", h.scope, scope)
	}
	was, since, sha := c.ledger.Scopes[scope], c.trust.Since(signed.RoleDeploy), digestOf(payload)
	is, err := was.judge(since, c.trust.Floor(signed.RoleDeploy), h.serial, sha)
	if err != nil && !c.faults.anySerial {
		return err
	}
	if is == known && err == nil {
		return nil
	}
	next := floor{Serial: h.serial, Since: since, SHA256: sha, CreatedMs: h.createdMs, Done: h.done}
	if was.Since == since {
		next.Done = was.Done
	}
	c.hook("serial-before")
	c.ledger.Scopes[scope] = next
	if err := c.save(); err != nil {
		c.ledger.Scopes[scope] = was
		return err
	}
	c.hook("serial-after")
	c.Clock.Told(h.createdMs)
	c.log.Info("fleet document counts", "scope", scope, "serial", h.serial)
	return nil
}

func (c *Channel) readRollout(ctx context.Context) error {
	var r *document.Rollout
	return c.read(ctx, depot.Rollout(c.Channel), signed.TypeRollout, c.rolloutScope(), func(payload []byte) (h heading, err error) {
		if r, err = document.DecodeRollout(payload); err != nil {
			return h, err
		}
		return heading{fleet: r.Fleet, scope: "rollout/" + r.Channel, serial: r.Serial, createdMs: r.CreatedMs}, nil
	}, func() { c.rollout = r })
}

func (c *Channel) readChannelCommands(ctx context.Context) error {
	return c.readCommands(ctx, depot.ChannelCommands(c.Channel), c.channelScope())
}

func (c *Channel) readDeviceCommands(ctx context.Context) error {
	return c.readCommands(ctx, depot.DeviceCommands(c.Gateway), c.deviceScope())
}

func (c *Channel) readCommands(ctx context.Context, name, scope string) error {
	var list *document.Commands
	return c.read(ctx, name, signed.TypeCommands, scope, func(payload []byte) (h heading, err error) {
		if list, err = document.DecodeCommands(payload); err != nil {
			return h, err
		}
		h = heading{fleet: list.Fleet, scope: list.Scope, serial: list.Serial, createdMs: list.CreatedMs}
		lost := slices.Contains(c.ledger.Lost, scope)
		if err = c.unchanged(list); err == nil && c.ledger.Scopes[scope].Serial == 0 && list.Scope == scope && !lost {
			h.done, err = c.before(ctx, list)
		}
		if lost {
			h.done = list.Serial
		}
		return h, err
	}, func() {
		was := c.lists[scope]
		c.lists[scope] = list
		c.forgotten(ctx, list)
		if was == nil || was.Serial != list.Serial { // a store may give the same list another version at each look
			c.again(list)
		}
	})
}

// unchanged refuses a list in which a command is another than the one of that serial that was taken up.
func (c *Channel) unchanged(list *document.Commands) error {
	for i := range list.List {
		one := &list.List[i]
		if o := c.ledger.find(list.Scope, c.trust.Since(signed.RoleDeploy), one.Serial); o != nil && o.SHA256 != commandDigest(one) {
			return refuse(ReasonConflict, "command %d is %q, and was %q: somebody has signed two of one serial", one.Serial, one.ID, o.ID)
		}
	}
	return nil
}

// before is the highest serial of a command whose result is in the store already: a device that takes a gateway's place has no ledger, and does not do again what the one before has done.
func (c *Channel) before(ctx context.Context, list *document.Commands) (done uint64, err error) {
	for i := len(list.List) - 1; i >= 0; i-- { // they are carried out in order
		serial := list.List[i].Serial
		_, _, err := c.get(ctx, depot.Result(c.Gateway, list.Scope, c.trust.Since(signed.RoleDeploy), serial), "")
		switch {
		case err == nil || errors.Is(err, bucket.ErrTooLarge):
			c.log.Info("commands were carried out by the device before", "scope", list.Scope, "serial", serial)
			return serial, nil
		case !errors.Is(err, bucket.ErrNotFound):
			return 0, fmt.Errorf("look for results of the device before: %w", err)
		}
	}
	return 0, nil
}

// again has the results returned once more of commands that a gateway's own list still has: whoever published it may have lost them. Those of a channel are sent once: each of its gateways would.
func (c *Channel) again(list *document.Commands) {
	if list.Scope != c.deviceScope() {
		return
	}
	for i := range list.List {
		if o := c.ledger.find(list.Scope, c.trust.Since(signed.RoleDeploy), list.List[i].Serial); o != nil && o.Ended {
			o.Sent = false // durable only with the next change: it is no harm to send it once more
		}
	}
}

// commandDigest names a command by all that was signed of it.
func commandDigest(one *document.Command) string {
	b, err := strict.Encode(one)
	if err != nil {
		panic(fmt.Sprintf("BUG: a command that was decoded: %v", err))
	}
	return digestOf(b)
}
