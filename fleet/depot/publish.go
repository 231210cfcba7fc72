package depot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket"
)

// ErrLost: somebody else has published in this place since it was read. Read it again, and decide again.
var ErrLost = errors.New("somebody else has published there meanwhile")

// Current is what lies in a place that is replaced: a channel's roll-out, or a list of commands.
type Current struct {
	Version string // of the object, for compare-and-swap; "": there is none
	Body    []byte // the envelope; nil: there is none
	Payload []byte // nil: Err tells why it does not count
	Err     error  // a document that no gateway takes lies there
}

// Current reads a place. What does not verify is told in Current.Err: it can be replaced all the same.
func (d Depot) Current(ctx context.Context, t *signed.Trust, name, typ string) (c Current, err error) {
	c.Body, c.Version, err = d.Read(ctx, name, "")
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return Current{}, nil
	case errors.Is(err, bucket.ErrTooLarge):
		return c, fmt.Errorf("%s: %w: it was not written by weir; remove it there", name, err)
	case err != nil:
		return c, err
	}
	if c.Payload, c.Err = t.Verify(c.Body, typ); c.Err != nil {
		c.Payload, c.Err = nil, fmt.Errorf("%s: %w", name, c.Err)
	}
	return c, nil
}

// CurrentRollout is the roll-out of a channel; nil: none, or none that counts (Err).
func (d Depot) CurrentRollout(ctx context.Context, t *signed.Trust, channel string) (Current, *document.Rollout, error) {
	c, err := d.Current(ctx, t, Rollout(channel), signed.TypeRollout)
	if err != nil || c.Payload == nil {
		return c, nil, err
	}
	r, err := document.DecodeRollout(c.Payload)
	if err == nil && (r.Fleet != t.Fleet() || r.Channel != channel) {
		err = fmt.Errorf("%w: it is of fleet %s, channel %s", ErrOther, r.Fleet, r.Channel)
	}
	if err != nil {
		c.Payload, c.Err = nil, fmt.Errorf("%s: %w", Rollout(channel), err)
		return c, nil, nil
	}
	return c, r, nil
}

// CurrentCommands are the commands of a scope (document.ScopeChannel, ScopeDevice); nil: none, or none that count (Err).
func (d Depot) CurrentCommands(ctx context.Context, t *signed.Trust, scope string) (Current, *document.Commands, error) {
	name, err := commandsName(scope)
	if err != nil {
		return Current{}, nil, err
	}
	c, err := d.Current(ctx, t, name, signed.TypeCommands)
	if err != nil || c.Payload == nil {
		return c, nil, err
	}
	list, err := document.DecodeCommands(c.Payload)
	if err == nil && (list.Fleet != t.Fleet() || list.Scope != scope) {
		err = fmt.Errorf("%w: it is of fleet %s, scope %s", ErrOther, list.Fleet, list.Scope)
	}
	if err != nil {
		c.Payload, c.Err = nil, fmt.Errorf("%s: %w", name, err)
		return c, nil, nil
	}
	return c, list, nil
}

// PublishRollout puts a signed roll-out in the place of what was read, and each document that was published, the one before as well, into the history. Errors: ErrLost; signed's, when no gateway
// would take it. A repeat is harmless.
func (d Depot) PublishRollout(ctx context.Context, t *signed.Trust, channel string, before Current, e *signed.Envelope) error {
	payload, err := t.Verify(e.Bytes(), signed.TypeRollout)
	if err != nil {
		return fmt.Errorf("nothing was published: %w", err)
	}
	r, err := document.DecodeRollout(payload)
	if err != nil {
		return fmt.Errorf("nothing was published: %w", err)
	}
	if r.Fleet != t.Fleet() || r.Channel != channel || r.Serial < t.Floor(signed.RoleDeploy) {
		return fmt.Errorf("nothing was published: %w: fleet %s, channel %s, serial %d", ErrOther, r.Fleet, r.Channel, r.Serial)
	}
	if before.Payload != nil {
		was, err := document.DecodeRollout(before.Payload)
		if err != nil {
			return err
		}
		if r.Serial <= was.Serial {
			return fmt.Errorf("nothing was published: serial %d behind %d: gateways would take it for a replay", r.Serial, was.Serial)
		}
		if err := d.remember(ctx, channel, was.Serial, before.Body); err != nil { // who published it may have been killed behind it
			return err
		}
	}
	if err := d.swap(ctx, Rollout(channel), before.Version, e.Bytes()); err != nil {
		return err
	}
	return d.remember(ctx, channel, r.Serial, e.Bytes())
}

func (d Depot) remember(ctx context.Context, channel string, serial uint64, body []byte) error {
	if err := d.Bucket.Create(ctx, History(channel, serial), body); err != nil && !errors.Is(err, bucket.ErrExists) {
		return fmt.Errorf("write the history of channel %s: %w", channel, err)
	}
	return nil
}

// PublishCommands puts signed commands in the place of what was read. Errors: as PublishRollout.
func (d Depot) PublishCommands(ctx context.Context, t *signed.Trust, before Current, e *signed.Envelope) error {
	payload, err := t.Verify(e.Bytes(), signed.TypeCommands)
	if err != nil {
		return fmt.Errorf("nothing was published: %w", err)
	}
	list, err := document.DecodeCommands(payload)
	if err != nil {
		return fmt.Errorf("nothing was published: %w", err)
	}
	if list.Fleet != t.Fleet() || list.Serial < t.Floor(signed.RoleDeploy) {
		return fmt.Errorf("nothing was published: %w: fleet %s, serial %d", ErrOther, list.Fleet, list.Serial)
	}
	name, err := commandsName(list.Scope)
	if err != nil {
		return err
	}
	return d.swap(ctx, name, before.Version, e.Bytes())
}

func commandsName(scope string) (string, error) {
	for kind, name := range map[string]func(string) string{document.ScopeChannel: ChannelCommands, document.ScopeDevice: DeviceCommands} {
		if len(scope) > len(kind) && scope[:len(kind)] == kind {
			return name(scope[len(kind):]), nil
		}
	}
	return "", fmt.Errorf("scope %q: want commands/CHANNEL or device/GATEWAY", scope)
}

// swap replaces an object. An answer that was lost is looked up: what was carried out is no error.
func (d Depot) swap(ctx context.Context, name, version string, body []byte) error {
	_, err := d.Bucket.Replace(ctx, name, version, body)
	if err == nil {
		return nil
	}
	if there, _, rerr := d.Read(ctx, name, ""); rerr == nil && bytes.Equal(there, body) {
		return nil
	}
	if errors.Is(err, bucket.ErrChanged) {
		return fmt.Errorf("%s: %w", name, ErrLost)
	}
	return fmt.Errorf("publish %s: %w", name, err)
}

// PublishRelease puts a signed release manifest, and gives its name: the sha256 of its payload. One that lies there already and counts is left alone.
func (d Depot) PublishRelease(ctx context.Context, t *signed.Trust, e *signed.Envelope) (sha string, err error) {
	if _, err := t.Verify(e.Bytes(), signed.TypeRelease); err != nil {
		return "", fmt.Errorf("nothing was published: %w", err)
	}
	r, err := document.DecodeRelease(e.Payload)
	if err != nil {
		return "", fmt.Errorf("nothing was published: %w", err)
	}
	if r.Fleet != t.Fleet() {
		return "", fmt.Errorf("nothing was published: %w: the release is of fleet %s, the root of %s", ErrOther, r.Fleet, t.Fleet())
	}
	sha = shaOf(e.Payload)
	c, err := d.Current(ctx, t, Release(sha), signed.TypeRelease)
	if err != nil {
		return "", err
	}
	if bytes.Equal(c.Payload, e.Payload) {
		return sha, nil
	}
	return sha, d.swap(ctx, Release(sha), c.Version, e.Bytes())
}

// PublishRoot puts the next root document, which t must follow to. Roots are never changed: another one of its number is ErrLost. What no gateway takes is none: whoever may write to the store could keep a fleet's keys as they are by
// it, and it is replaced.
func (d Depot) PublishRoot(ctx context.Context, t *signed.Trust, body []byte) error {
	e, err := signed.Parse(body)
	if err != nil {
		return err
	}
	r, err := signed.DecodeRoot(e.Payload)
	if err != nil {
		return err
	}
	follows := func(there []byte) bool { // whether gateways would take it
		_, err := signed.NewTrust(there)
		return err == nil
	}
	if !bytes.Equal(body, t.Envelope()) {
		before, err := signed.NewTrust(t.Envelope())
		if err != nil {
			return err
		}
		if err := t.Advance(body); err != nil {
			return err
		}
		follows = func(there []byte) bool { return before.Advance(there) == nil }
	}
	err = d.Bucket.Create(ctx, Root(r.Version), body)
	if !errors.Is(err, bucket.ErrExists) {
		return err
	}
	there, version, err := d.Read(ctx, Root(r.Version), "")
	switch {
	case err == nil && bytes.Equal(there, body):
		return nil
	case err == nil && !follows(there):
		return d.swap(ctx, Root(r.Version), version, body)
	case errors.Is(err, bucket.ErrTooLarge):
		return fmt.Errorf("%s: %w: it was not written by weir; remove it there", Root(r.Version), err)
	}
	return errors.Join(fmt.Errorf("%s: %w", Root(r.Version), ErrLost), err)
}

// HistoryLast is the highest serial of a channel's history that counts, 0: none: where the roll-out itself was damaged, the next one has to be above it. At most 1000 that count are
// looked at; what does not count is no reason to miss one that does.
func (d Depot) HistoryLast(ctx context.Context, t *signed.Trust, channel string) (last uint64, releases []string, err error) {
	var serials []uint64
	err = bucket.Each(ctx, d.Bucket, Channels+bucket.Escape(channel)+"/history/", func(o bucket.Object) error {
		if n, err := Parse(o.Name); err == nil && n.Kind == KindHistory {
			serials = append(serials, n.Number)
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("history of channel %s: %w", channel, err)
	}
	sort.Slice(serials, func(i, j int) bool { return serials[i] > serials[j] }) // names order 10 before 9
	seen := map[string]bool{}
	count := 0
	for i, serial := range serials {
		if count >= historyMost || i >= rubbishMost {
			break
		}
		body, _, err := d.Read(ctx, History(channel, serial), "")
		if errors.Is(err, bucket.ErrNotFound) || errors.Is(err, bucket.ErrTooLarge) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		payload, err := t.Verify(body, signed.TypeRollout)
		if err != nil { // by a key that was replaced, or by nobody
			continue
		}
		if r, err := document.DecodeRollout(payload); err == nil && r.Fleet == t.Fleet() && r.Channel == channel && r.Serial == serial {
			last, count = max(last, serial), count+1
			if !seen[r.Release] {
				seen[r.Release] = true
				releases = append(releases, r.Release)
			}
		}
	}
	return last, releases, nil
}

// historyMost is how many documents of the history count: a hundred roll-outs of ten waves. rubbishMost bounds what is read for them where somebody has written what does not count.
const (
	historyMost = 1000
	rubbishMost = 10 * historyMost
)

func shaOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
