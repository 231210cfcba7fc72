//go:build !nocentral

package main

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/fleet/strict"
	"github.com/weirstream/weir/uplink/bucket"
)

// commandFlags are what a command has.
type commandFlags struct {
	*fleetFlags
	id, pipeline, file, release string
	allow, dryRun, stop, upload bool
	again                       bool
	expires                     time.Duration
	whole, replace              bool
	boards                      []string
	to                          string
	publicKey                   string
}

func fleetCommandCommand(f *fleetFlags) *cobra.Command {
	k := &commandFlags{fleetFlags: f}
	c := &cobra.Command{
		Use: "command DO [GATEWAY...]", Short: "Have gateways do something, once: savepoint, stop, start, restart-pipeline, apply, restart, upgrade, diagnostics, rotate-key", Args: usageArgs(cobra.MinimumNArgs(1)),
		Long:    `Adds a signed command for each gateway that is named, or one for all of the channel (--all). A gateway that is offline does it when it comes back, unless it has expired. weir fleet results shows what came of it.`,
		Example: "  weir fleet command restart gw-0017 --key deploy-1.key\n  weir fleet command apply --all --channel canary --config-file weir.yaml --dry-run --key deploy-1.key",
		RunE:    func(c *cobra.Command, args []string) error { return k.run(c, args[0], args[1:]) },
	}
	k.add(c)
	g := c.Flags()
	g.StringVar(&k.file, "config-file", "", "apply: the config file")
	g.BoolVar(&k.allow, "allow-dropped-state", false, "apply: also where state is lost")
	g.BoolVar(&k.dryRun, "dry-run", false, "apply: tell what would change, and change nothing")
	g.BoolVar(&k.stop, "stop", false, "savepoint: stop behind it")
	g.BoolVar(&k.again, "again", false, "upgrade: also a program that the gateway has gone back from before")
	g.StringVar(&k.release, "release", "", "upgrade: the release, by version or sha256")
	g.StringVar(&k.publicKey, "public-key", "", "rotate-key: only if this is the key that the gateway has now")
	return f.signs(c)
}

func fleetSavepointCommand(f *fleetFlags) *cobra.Command {
	k := &commandFlags{fleetFlags: f}
	c := &cobra.Command{
		Use: "savepoint [GATEWAY...]", Short: "Have gateways make savepoints", Args: usageArgs(cobra.ArbitraryArgs),
		RunE: func(c *cobra.Command, args []string) error { return k.run(c, document.DoSavepoint, args) },
	}
	k.add(c)
	c.Flags().BoolVar(&k.stop, "stop", false, "stop behind it")
	return f.signs(c)
}

func (k *commandFlags) add(c *cobra.Command) {
	g := c.Flags()
	g.StringVar(&k.id, "id", "", "name of the command (default: what it does, and the time)")
	g.StringVar(&k.pipeline, "pipeline", "", "only that pipeline")
	g.BoolVar(&k.upload, "upload", false, "savepoint, diagnostics: put it into the central store")
	g.DurationVar(&k.expires, "expires", 7*24*time.Hour, "not behind that time from now; 0: without end")
	g.BoolVar(&k.whole, "all", false, "all gateways of the channel")
	g.StringArrayVar(&k.boards, "board", nil, "with --all: only gateways on that board; may be repeated")
	g.BoolVar(&k.replace, "replace-unverified", false, "also where commands lie that do not count: since the key that signed them was replaced, or somebody else has written there")
	g.StringVar(&k.to, "to", "", "of one gateway or --all: write the signed document there instead of publishing it, for others to sign (weir keys sign, weir fleet publish)")
}

// command is what the flags say.
func (k *commandFlags) command(c *cobra.Command, fl *fleet, do string) (document.Command, error) {
	now := time.Now()
	one := document.Command{ID: k.id, Do: do, CreatedMs: now.UnixMilli(), Pipeline: k.pipeline, Allow: k.allow, DryRun: k.dryRun, WithStop: k.stop, Upload: k.upload, PublicKey: k.publicKey,
		Audience: document.Audience{Boards: k.boards}}
	if one.ID == "" {
		one.ID = fmt.Sprintf("%s-%s", do, now.UTC().Format("20060102T150405.000"))
	}
	var err error
	if one.ExpiresMs, err = expiry(k.expires, now); err != nil {
		return one, err
	}
	if k.file != "" {
		b, err := readSmall(c.Context(), k.file)
		if err != nil {
			return one, usageError{err}
		}
		one.Config = string(b)
	}
	if k.release != "" {
		r, err := fl.release(c.Context(), k.release)
		if err != nil {
			return one, err
		}
		one.Release, one.Policy = r.Release, &document.Policy{Savepoint: "required", Again: k.again}
	}
	return one, nil
}

func (k *commandFlags) run(c *cobra.Command, do string, gateways []string) error {
	switch {
	case k.whole == (len(gateways) > 0):
		return usageError{errors.New("which gateways? Name them, or give --all for those of --channel")}
	case len(k.boards) > 0 && !k.whole:
		return usageError{errors.New("--board goes with --all")}
	case k.to != "" && len(gateways) > 1:
		return usageError{errors.New("--to takes one document: one gateway, or --all")}
	}
	signers, err := k.signers(c)
	if err != nil {
		return err
	}
	fl, err := k.open(c)
	if err != nil {
		return err
	}
	one, err := k.command(c, fl, do)
	if err != nil {
		return err
	}
	var scopes []string
	for _, g := range gateways {
		if err := strict.Name(g); err != nil {
			return usageError{fmt.Errorf("gateway %q: %w", g, err)}
		}
		if scope := document.ScopeDevice + g; !slices.Contains(scopes, scope) { // named twice it would meet its own list
			scopes = append(scopes, scope)
		}
		if told, err := fl.Bucket.List(c.Context(), depot.ReportsOf(g), ""); err == nil && len(told) == 0 {
			fmt.Fprintf(c.ErrOrStderr(), "warning: no gateway %q has ever reported here: is that its name? (weir fleet devices)\n", g)
		}
	}
	question := fmt.Sprintf("%s on %d gateways?", do, len(gateways))
	if k.whole {
		all, _, err := fl.gateways(c)
		if err != nil {
			return err
		}
		meant := 0
		for name, t := range all {
			if one.Audience.Includes(name, t.Board) {
				meant++
			}
		}
		scopes, question = []string{document.ScopeChannel + fl.channel}, fmt.Sprintf("%s on all %d known gateways of channel %s that are meant?", do, meant, fl.channel)
	}
	var envelopes []prepared
	for _, scope := range scopes { // all are made, and signed, before one is published
		p, err := fl.prepare(c, scope, one, k.replace, signers)
		if err != nil {
			return err
		}
		envelopes = append(envelopes, p)
		for _, d := range p.dropped {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s: no room for %s (%s), which may not have been carried out; it is dropped\n", scope, d.ID, d.Do)
		}
	}
	if err := k.confirm(c, question); err != nil {
		return err
	}
	if k.to != "" {
		return k.written(c, k.to, envelopes[0].scope, envelopes[0].serial, envelopes[0].envelope)
	}
	type published struct {
		Scope  string `json:"scope"`
		Serial uint64 `json:"serial"`
		ID     string `json:"id"`
	}
	var done []published
	for _, p := range envelopes {
		if err = fl.PublishCommands(c.Context(), fl.trust, p.before, p.envelope); err != nil {
			err = fmt.Errorf("%s: %w", p.scope, err)
			break
		}
		done = append(done, published{p.scope, p.serial, one.ID})
	}
	return errors.Join(err, k.say(c, done, func() {
		for _, d := range done {
			fmt.Fprintf(c.OutOrStdout(), "published: %s for %s, serial %d\n", d.ID, d.Scope, d.Serial)
		}
	}))
}

// prepared is a list of commands that is ready.
type prepared struct {
	scope    string
	before   depot.Current
	envelope *signed.Envelope
	serial   uint64
	dropped  []document.Command
}

func (fl *fleet) prepare(c *cobra.Command, scope string, one document.Command, replace bool, signers []signed.Signer) (p prepared, err error) {
	p.scope = scope
	var list *document.Commands
	if p.before, list, err = fl.CurrentCommands(c.Context(), fl.trust, scope); err != nil {
		return p, err
	}
	if p.before.Err != nil && !replace {
		return p, fmt.Errorf("what lies there does not count: %w; --replace-unverified puts a new list in its place: its serial is above what the gateways report and have answered, and commands that were in the list and are not done are lost. If it was a thief's, raise the floor first (weir keys rotate --floor)", p.before.Err)
	}
	if list == nil {
		if list, err = depot.NewCommands(fl.trust.Fleet(), scope, 0); err != nil {
			return p, err
		}
	}
	answers, answered, err := fl.answers(c, scope, list)
	if err != nil {
		return p, err
	}
	claims, err := fl.scopeClaims(c, scope)
	if err != nil {
		return p, err
	}
	a := depot.AheadOf(list.Serial, claims)
	tellAhead(c.ErrOrStderr(), scope, &a)
	last := max(list.Serial, answered, a.Most) // the list was removed, or the store restored: gateways remember
	if claims := claimedSerial(p.before.Body); p.before.Err != nil && claims <= last+depot.ReachMost {
		last = max(last, claims)
	}
	next, err := depot.NextSerial(fl.trust, last)
	if err != nil {
		return p, err
	}
	list.Serial = next - 1
	now := time.Now().UnixMilli()
	list, p.dropped, err = depot.Append(list, one, func(serial uint64) bool { return answers[serial] }, now)
	if err != nil {
		return p, usageError{err}
	}
	p.serial = list.Serial
	payload, err := list.Encode()
	if err != nil {
		return p, err
	}
	p.envelope, err = fl.seal(c.Context(), signed.TypeCommands, payload, signers)
	return p, err
}

// claimedSerial is the serial of a list that does not count; 0: it is none. One that a key signed which was replaced since may have been seen by gateways, which then remember its serial.
func claimedSerial(body []byte) uint64 {
	e, err := signed.Parse(body)
	if err != nil || e.Type != signed.TypeCommands {
		return 0
	}
	list, err := document.DecodeCommands(e.Payload)
	if err != nil {
		return 0
	}
	return list.Serial
}

func scopeOf(scope string) (gateway string, is bool) {
	if len(scope) > len(document.ScopeDevice) && scope[:len(document.ScopeDevice)] == document.ScopeDevice {
		return scope[len(document.ScopeDevice):], true
	}
	return "", false
}

// resultsMost is how many results of a gateway are read.
const resultsMost = 200

func fleetResultsCommand(f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "results GATEWAY", Short: "Show what came of the commands to a gateway", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := strict.Name(args[0]); err != nil {
				return usageError{fmt.Errorf("gateway %q: %w", args[0], err)}
			}
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			list, err := fl.results(c, args[0])
			if err == nil && len(list) == 0 {
				err = fl.unanswered(c, args[0])
			}
			if err != nil {
				return err
			}
			return f.say(c, list, func() {
				t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
				fmt.Fprintln(t, "AT\tSCOPE\tSERIAL\tCOMMAND\tRESULT\tDETAIL")
				for _, r := range list {
					fmt.Fprintf(t, "%s\t%s\t%d\t%s (%s)\t%s\t%s\n", time.UnixMilli(r.AtMs).UTC().Format("2006-01-02 15:04"), r.Scope, r.Serial, r.Do, r.ID, r.Result, oneLine(r.Detail))
					for _, file := range r.Files {
						fmt.Fprintf(t, "\t\t\t\t\t%s\n", oneLine(file))
					}
				}
				t.Flush()
			})
		},
	}
}

// unanswered tells why there are no results of a gateway. An error: nobody here knows one of that name.
func (fl *fleet) unanswered(c *cobra.Command, gateway string) error {
	told, err := fl.Bucket.List(c.Context(), depot.ReportsOf(gateway), "")
	if err != nil {
		return err
	}
	waiting := 0
	for _, scope := range []string{document.ScopeDevice + gateway, document.ScopeChannel + fl.channel} {
		if len(told) == 0 && scope != document.ScopeDevice+gateway { // what is for all of a channel makes no gateway
			continue
		}
		_, list, err := fl.CurrentCommands(c.Context(), fl.trust, scope)
		if err != nil {
			return err
		}
		if list != nil {
			waiting += len(list.List)
		}
	}
	switch {
	case len(told) == 0 && waiting == 0:
		return fmt.Errorf("no gateway %q has ever reported here, and no command was published for it: is that its name? (weir fleet devices --all)", gateway)
	case len(told) == 0:
		fmt.Fprintf(c.ErrOrStderr(), "gateway %q has never reported here; %d commands wait for it\n", gateway, waiting)
	default:
		fmt.Fprintf(c.ErrOrStderr(), "no result of gateway %s yet; %d commands are published for it and for channel %s\n", gateway, waiting, fl.channel)
	}
	return nil
}

// results are the newest of a gateway, in their order. Those that its key has not signed are told, and left out.
func (fl *fleet) results(c *cobra.Command, gateway string) ([]*document.Result, error) {
	var objects []bucket.Object
	err := bucket.Each(c.Context(), fl.Bucket, depot.ReportsOf(gateway)+"result/", func(o bucket.Object) error {
		objects = append(objects, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(objects, func(a, b bucket.Object) int { return int(max(-1, min(1, a.WrittenMs-b.WrittenMs))) })
	list := []*document.Result{}
	for _, o := range objects[max(0, len(objects)-resultsMost):] {
		r, err := fl.result(c, gateway, o.Name)
		if err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s: %v\n", o.Name, err)
			continue
		}
		list = append(list, r)
	}
	return list, nil
}

func (fl *fleet) result(c *cobra.Command, gateway, name string) (*document.Result, error) {
	n, err := depot.Parse(name)
	if err != nil {
		return nil, err
	}
	body, _, err := fl.Read(c.Context(), name, "")
	if err != nil {
		return nil, err
	}
	var payload []byte
	if key := fl.reader.Keys[gateway]; key != nil {
		payload, err = signed.VerifyDevice(body, signed.TypeResult, key)
	} else if e, perr := signed.Parse(body); perr != nil || e.Type != signed.TypeResult {
		err = errors.Join(perr, errors.New("it is no result"))
	} else {
		payload = e.Payload
	}
	if err != nil {
		return nil, err
	}
	r, err := document.DecodeResult(payload)
	if err == nil && (r.Gateway != gateway || r.Scope != n.Scope || r.Serial != n.Number) {
		err = errors.New("it speaks for somebody else than its name says")
	}
	return r, err
}
