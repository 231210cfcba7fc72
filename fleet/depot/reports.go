package depot

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket"
)

// Reader reads what gateways say, again and again: it keeps a short form of each, and reads those only that have changed. It takes some 300 bytes for a gateway, and one report of each
// reader at a time. What it reads was written by whoever may write to the store: a report that is not what its name says, or not signed by the key that is known of its gateway, is counted in
// Refused and changes nothing; what was known of that gateway before stays. It has one owner.
type Reader struct {
	Depot Depot
	// Keys are those of gateways, as somebody has vouched for. A report of a gateway without one is taken as it is, and is not Verified.
	Keys map[string]ed25519.PublicKey

	states   map[string]*told
	progress map[string]*told
	id       string // of the roll-out that progress is of
	texts    map[string]string
	fault    plantedReader
}

// Told is the short form of a report.
type Told struct {
	WrittenMs int64 // by the store's clock
	Verified  bool  // by a key that somebody has vouched for
	// Of what a gateway says of itself:
	Channel, Board, Arch, Version, Running string // Running is the release that it says it runs
	Problem                                string // the first one
	Root                                   uint64 // the newest root document that it knows
	Serials                                Serials
	// Of how it fares in a roll-out:
	Release, State, Outcome, Why, From, To string
}

type told struct {
	Told
	bytes   int64
	written int64 // of the object that was looked at, whether or not it was refused
	young   bool  // it may have been written again within the store's unit of time
	refused string
}

// plantedReader are faults that tests must find.
type plantedReader struct {
	trusting bool // signatures are not asked
	anyName  bool // a report may speak for others
	stale    bool // what was written again within a second is not read again
}

// Summary is what a reading found beside the reports.
type Summary struct {
	Read       int            // objects that were read this time
	Unverified int            // reports of gateways whose key is not known
	Refused    map[string]int // reports that were refused, by reason
	Example    string         // one of them, in words
}

// Add adds another reading's.
func (s *Summary) Add(o Summary) {
	s.Read += o.Read
	s.Unverified += o.Unverified
	for why, n := range o.Refused {
		if s.Refused == nil {
			s.Refused = map[string]int{}
		}
		s.Refused[why] += n
	}
	if s.Example == "" {
		s.Example = o.Example
	}
}

const (
	readersAtOnce = 16
	// youngMs: a store that counts in seconds shows the same time for two writes within one.
	youngMs   = 2000
	wordsMost = 200
)

// errNames: a report speaks for somebody else than its name says.
var errNames = errors.New("it speaks for somebody else than its name says")

// Gateways gives all gateways that have ever said something of themselves, WrittenMs being their newest word. bodies: with what they said, else the list alone is asked, which costs one request per
// thousand objects.
func (r *Reader) Gateways(ctx context.Context, bodies bool) (map[string]Told, Summary, error) {
	if r.states == nil {
		r.states = map[string]*told{}
	}
	found := map[string]bucket.Object{}
	after := ""
	for {
		page, err := r.Depot.Bucket.List(ctx, Reports, after)
		if err != nil {
			return nil, Summary{}, fmt.Errorf("list the gateways' reports: %w", err)
		}
		if len(page) == 0 {
			break
		}
		last := page[len(page)-1].Name
		if last <= after {
			return nil, Summary{}, fmt.Errorf("list the gateways' reports: the store lists %q behind %q", last, after)
		}
		after = last
		var n Name
		for _, o := range page {
			if n, err = Parse(o.Name); err == nil && n.Kind == KindState {
				found[n.Gateway] = o
			}
		}
		if err == nil && (n.Kind == KindFile || n.Kind == KindResult) { // the state comes behind them: pass over what else the last gateway has
			after = max(after, ReportsOf(n.Gateway)+"state")
		}
	}
	if !bodies {
		all := make(map[string]Told, len(found))
		for gateway, o := range found {
			all[gateway] = Told{WrittenMs: o.WrittenMs}
		}
		return all, Summary{}, nil
	}
	return r.read(ctx, r.states, found, r.state)
}

// state is what a gateway says of itself.
func (r *Reader) state(gateway string, body []byte) (Told, error) {
	payload, verified, err := r.verified(gateway, body, signed.TypeState)
	if err != nil {
		return Told{}, err
	}
	s, err := document.DecodeState(payload)
	if err != nil {
		return Told{}, err
	}
	if s.Gateway != gateway && !r.fault.anyName {
		return Told{}, errNames
	}
	t := Told{Verified: verified, Channel: s.Channel, Board: s.Board, Arch: s.Arch, Version: s.Version, Running: s.Release, Root: s.Root, Serials: serialsOf(s)}
	if len(s.Problems) > 0 {
		t.Problem = document.Clean(s.Problems[0], wordsMost)
	}
	return t, nil
}

// Gateway gives what one gateway says of itself, alone; none where it has said nothing, or nothing that counts.
func (r *Reader) Gateway(ctx context.Context, gateway string) (map[string]Told, error) {
	body, _, err := r.Depot.Read(ctx, State(gateway), "")
	switch {
	case errors.Is(err, bucket.ErrNotFound), errors.Is(err, bucket.ErrTooLarge):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the report of %s: %w", gateway, err)
	}
	t, err := r.state(gateway, body)
	if err != nil { // somebody's rubbish keeps nobody from ordering
		return nil, nil
	}
	return map[string]Told{gateway: t}, nil
}

// Progress gives how the gateways fare in a roll-out.
func (r *Reader) Progress(ctx context.Context, rollout string) (map[string]Told, Summary, error) {
	if r.progress == nil || r.id != rollout {
		r.progress, r.id = map[string]*told{}, rollout
	}
	found := map[string]bucket.Object{}
	err := bucket.Each(ctx, r.Depot.Bucket, ProgressOf(rollout), func(o bucket.Object) error {
		if n, err := Parse(o.Name); err == nil && n.Kind == KindProgress && n.Rollout == rollout {
			found[n.Gateway] = o
		}
		return nil
	})
	if err != nil {
		return nil, Summary{}, fmt.Errorf("list the reports of roll-out %s: %w", rollout, err)
	}
	return r.read(ctx, r.progress, found, func(gateway string, body []byte) (Told, error) {
		payload, verified, err := r.verified(gateway, body, signed.TypeProgress)
		if err != nil {
			return Told{}, err
		}
		p, err := document.DecodeProgress(payload)
		if err != nil {
			return Told{}, err
		}
		if (p.Gateway != gateway || p.Rollout != rollout) && !r.fault.anyName {
			return Told{}, errNames
		}
		return Told{Verified: verified, Release: p.Release, State: p.State, Outcome: p.Outcome, Why: document.Clean(p.Why, wordsMost), From: p.From, To: p.To}, nil
	})
}

// verified gives the payload, and whether a key that is known vouches for it.
func (r *Reader) verified(gateway string, body []byte, typ string) ([]byte, bool, error) {
	if key := r.Keys[gateway]; key != nil && !r.fault.trusting {
		payload, err := signed.VerifyDevice(body, typ, key)
		return payload, true, err
	}
	e, err := signed.Parse(body)
	if err != nil {
		return nil, false, err
	}
	if e.Type != typ {
		return nil, false, fmt.Errorf("%w: %s, want %s", signed.ErrType, e.Type, typ)
	}
	return e.Payload, false, nil
}

// read brings what is known up to what was found.
func (r *Reader) read(ctx context.Context, known map[string]*told, found map[string]bucket.Object, decode func(gateway string, body []byte) (Told, error)) (map[string]Told, Summary, error) {
	newest := int64(0)
	for _, o := range found {
		newest = max(newest, o.WrittenMs)
	}
	var s Summary
	var changed []string
	for gateway, o := range found {
		t := known[gateway]
		if t == nil || t.written != o.WrittenMs || t.bytes != o.Bytes || t.young && !r.fault.stale {
			changed = append(changed, gateway)
		}
	}
	if err := r.fetch(ctx, known, found, newest, changed, decode); err != nil {
		return nil, s, err
	}
	s.Read = len(changed)
	all := make(map[string]Told, len(known))
	for gateway, t := range known {
		if t.refused != "" {
			if s.Refused == nil {
				s.Refused = map[string]int{}
			}
			s.Refused[t.refused]++
			if s.Example == "" {
				s.Example = fmt.Sprintf("%s: %s", gateway, t.refused)
			}
		}
		if t.WrittenMs == 0 { // nothing of it was ever taken
			continue
		}
		if all[gateway] = t.Told; !t.Verified {
			s.Unverified++
		}
	}
	return all, s, nil
}

// fetch reads the changed ones, several at once, and puts them into known.
func (r *Reader) fetch(ctx context.Context, known map[string]*told, found map[string]bucket.Object, newest int64, changed []string, decode func(string, []byte) (Told, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
		todo  = make(chan string)
	)
	for range min(readersAtOnce, len(changed)) {
		wg.Go(func() {
			for gateway := range todo {
				o := found[gateway]
				body, _, err := r.Depot.Bucket.Get(bucket.WithBytesMax(ctx, signed.BytesMax), o.Name)
				var says Told
				switch {
				case err == nil:
					says, err = decode(gateway, body)
				case errors.Is(err, bucket.ErrNotFound):
					continue
				case !errors.Is(err, bucket.ErrTooLarge):
					mu.Lock()
					if first == nil {
						first = fmt.Errorf("read %s: %w", o.Name, err)
						cancel()
					}
					mu.Unlock()
					continue
				}
				mu.Lock()
				r.keep(known, gateway, &o, newest, says, err)
				mu.Unlock()
			}
		})
	}
feed:
	for _, gateway := range changed {
		select {
		case todo <- gateway:
		case <-ctx.Done():
			break feed
		}
	}
	close(todo)
	wg.Wait()
	if first == nil {
		first = ctx.Err()
	}
	return first
}

// keep takes what was read, or what was wrong with it.
func (r *Reader) keep(known map[string]*told, gateway string, o *bucket.Object, newest int64, t Told, err error) {
	k := known[gateway]
	if k == nil {
		k = &told{}
		known[gateway] = k
	}
	k.bytes, k.written, k.young, k.refused = o.Bytes, o.WrittenMs, o.WrittenMs > newest-youngMs, ""
	if err != nil {
		k.refused = reason(err)
		return
	}
	t.WrittenMs = o.WrittenMs
	for _, text := range []*string{&t.Channel, &t.Board, &t.Arch, &t.Version, &t.Running, &t.Release, &t.State, &t.Outcome, &t.From, &t.To} {
		*text = r.same(*text)
	}
	k.Told = t
}

// textsMost bounds how many different texts are shared: what is hostile may be different in each report.
const textsMost = 4096

// same gives one copy of equal texts: a fleet has few versions, boards and states.
func (r *Reader) same(s string) string {
	if t, is := r.texts[s]; is {
		return t
	}
	if r.texts == nil {
		r.texts = map[string]string{}
	}
	s = strings.Clone(s)
	if len(r.texts) < textsMost {
		r.texts[s] = s
	}
	return s
}

// reason is in how few words a report was refused.
func reason(err error) string {
	for _, r := range []struct {
		err  error
		says string
	}{
		{bucket.ErrTooLarge, "too large"}, {signed.ErrSize, "too large"}, {signed.ErrSignature, "wrong signature"}, {signed.ErrThreshold, "not signed by the gateway's key"},
		{signed.ErrType, "another type"}, {signed.ErrVersion, "of a newer weir"}, {errNames, errNames.Error()}, {document.ErrForm, "not a document of this form"},
	} {
		if errors.Is(err, r.err) {
			return r.says
		}
	}
	return "unreadable"
}
