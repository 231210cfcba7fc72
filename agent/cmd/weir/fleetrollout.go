//go:build !nocentral

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/rollout"
	"github.com/weirstream/weir/fleet/signed"
)

// rolloutFlags say what is rolled out, to whom, and how.
type rolloutFlags struct {
	*fleetFlags
	id, waves           string
	boards, gateways    []string
	maxFailed           string
	minReports          int
	silence, expires    time.Duration
	savepoint, window   string
	probation           time.Duration
	discard, duplicates bool
	replace             bool
	to                  string
	watch, again        bool
	every               time.Duration
}

func fleetRolloutCommand(f *fleetFlags) *cobra.Command {
	r := &rolloutFlags{fleetFlags: f}
	c := &cobra.Command{
		Use: "rollout VERSION|SHA256", Short: "Have the gateways of a channel install a release, wave by wave", Args: usageArgs(cobra.ExactArgs(1)),
		Long: `Publishes a roll-out in the place of the one that the channel has. Which gateways a wave has is chosen by a hash of roll-out and gateway: who is in stays in. weir fleet reconcile, or --watch, goes on to the
next wave, or halts. Going back is a roll-out of the older release; one below the floor of secure versions is refused.`,
		Example: "  weir fleet rollout 1.4.0 --waves 1%:24h,10%:24h,100% --key deploy-1.key",
		RunE:    func(c *cobra.Command, args []string) error { return r.run(c, args[0]) },
	}
	g := c.Flags()
	g.StringVar(&r.id, "id", "", "name of the roll-out (default: version and time)")
	g.StringVar(&r.waves, "waves", "1%:24h,10%:24h,100%", "shares of the gateways, and how long each wave runs at least")
	g.StringArrayVar(&r.boards, "board", nil, "only gateways on that board; may be repeated")
	g.StringArrayVar(&r.gateways, "gateway", nil, "only that gateway; may be repeated")
	r.addLimits(c)
	g.IntVar(&r.minReports, "min-reports", 10, "how many have to end before a wave is judged, and to commit before the next (of fewer that are there: all)")
	g.DurationVar(&r.silence, "silence", 2*time.Hour, "a gateway that has stopped its work for the upgrade and says nothing for so long has failed; 0: never")
	g.DurationVar(&r.expires, "expires", 0, "no gateway begins behind that time from now; 0: without end")
	g.StringVar(&r.savepoint, "savepoint", "required", "before the switch: required, or best-effort")
	g.StringVar(&r.window, "window", "", "gateways' local time of day in which they may switch: 02:00-04:30")
	g.DurationVar(&r.probation, "probation", 0, "how long the new program is on trial at least; 0: the gateway's setting")
	g.BoolVar(&r.discard, "discard-state", false, "also where the new program cannot read the state")
	g.BoolVar(&r.duplicates, "allow-duplicates", false, "also where sinks cannot be held back on trial")
	g.BoolVar(&r.again, "again", false, "also on gateways that have gone back from this program before")
	g.BoolVar(&r.replace, "replace-unverified", false, "also where a document lies in the channel that does not count")
	g.StringVar(&r.to, "to", "", "write the signed document there instead of publishing it, for others to sign (weir keys sign, weir fleet publish)")
	g.BoolVar(&r.watch, "watch", false, "stay, go on to the next waves, and halt, until it is done")
	g.DurationVar(&r.every, "every", time.Minute, "with --watch: how often")
	return f.signs(c)
}

func (r *rolloutFlags) addLimits(c *cobra.Command) {
	c.Flags().StringVar(&r.maxFailed, "max-failed", "5%", "halt when more than that share of the gateways that ended, or fell silent, have failed")
}

func (r *rolloutFlags) failed() (int, error) {
	if r.maxFailed == "0%" {
		return 0, nil
	}
	waves, err := rollout.ParseWaves(r.maxFailed)
	if err != nil || len(waves) != 1 || waves[0].SoakMs != 0 {
		return 0, usageError{fmt.Errorf("--max-failed %q: want a share, as 5%% or 0.5%%", r.maxFailed)}
	}
	return waves[0].Permille, nil
}

// document is what the flags say.
func (r *rolloutFlags) document(fl *fleet, release *releaseRow, serial uint64, nowMs int64) (*document.Rollout, error) {
	waves, err := rollout.ParseWaves(r.waves)
	if err != nil {
		return nil, usageError{fmt.Errorf("--waves: %w", err)}
	}
	limit, err := r.failed()
	if err != nil {
		return nil, err
	}
	silence, err := wholeMs("silence", r.silence, "never")
	if err != nil {
		return nil, err
	}
	probation, err := wholeMs("probation", r.probation, "the gateway's setting")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if r.id == "" {
		r.id = fmt.Sprintf("%s-%s", release.Version, now.UTC().Format("20060102T150405"))
	}
	d := &document.Rollout{Fleet: fl.trust.Fleet(), Serial: serial, Channel: fl.channel, ID: r.id, Release: release.Release, CreatedMs: now.UnixMilli(), Permille: waves[0].Permille,
		Audience: document.Audience{Gateways: r.gateways, Boards: r.boards},
		Policy:   document.Policy{Savepoint: r.savepoint, ProbationMs: probation, DiscardState: r.discard, AllowDuplicates: r.duplicates, Window: r.window, Again: r.again},
		Limits:   document.Limits{MaxFailedPermille: limit, MinReports: r.minReports, SilenceMs: silence}, Waves: waves, WaveMs: nowMs}
	if d.ExpiresMs, err = expiry(r.expires, now); err != nil {
		return nil, err
	}
	if _, err := d.Encode(); err != nil {
		return nil, usageError{err}
	}
	return d, nil
}

// wholeMs is a duration as documents have it; zero says what none means. What is below a millisecond would become that.
func wholeMs(flag string, d time.Duration, zero string) (int64, error) {
	if d < 0 || d%time.Millisecond != 0 {
		return 0, usageError{fmt.Errorf("--%s %s: want a time in whole milliseconds, or 0: %s", flag, d, zero)}
	}
	return d.Milliseconds(), nil
}

// expiry is when nobody begins any more; 0: never.
func expiry(d time.Duration, now time.Time) (int64, error) {
	switch {
	case d < 0 || d > 0 && d < time.Millisecond:
		return 0, usageError{fmt.Errorf("--expires %s: want a time from now, a millisecond at least, or 0: without end", d)}
	case d == 0:
		return 0, nil
	}
	return now.Add(d).UnixMilli(), nil
}

// everyLeast is how often somebody may look at the store who stays.
const everyLeast = 10 * time.Millisecond

func often(flag string, d time.Duration) error {
	if d < everyLeast {
		return usageError{fmt.Errorf("--%s %s: want %s at least", flag, d, everyLeast)}
	}
	return nil
}

func (r *rolloutFlags) run(c *cobra.Command, what string) error {
	if r.watch {
		if err := often("every", r.every); err != nil {
			return err
		}
	}
	signers, err := r.signers(c)
	if err != nil {
		return err
	}
	fl, err := r.open(c)
	if err != nil {
		return err
	}
	release, err := fl.release(c.Context(), what)
	if err != nil {
		return err
	}
	before, was, err := fl.CurrentRollout(c.Context(), fl.trust, fl.channel)
	if err != nil {
		return err
	}
	if before.Err != nil && !r.replace {
		return usageError{fmt.Errorf("%w; --replace-unverified puts this roll-out in its place", before.Err)}
	}
	all, _, err := fl.gateways(c)
	if err != nil {
		return err
	}
	serial, floor, err := fl.past(c, was, all)
	if err != nil {
		return err
	}
	if release.SecureVersion < floor {
		return usageError{fmt.Errorf("release %s has the secure version %d; gateways that have committed what was rolled out here before take none below %d", release.Version, release.SecureVersion, floor)}
	}
	now, err := fl.Now(c.Context())
	if err != nil {
		return err
	}
	warnClock(c, now)
	d, err := r.document(fl, release, serial, now)
	if err != nil {
		return err
	}
	if used, err := fl.Bucket.List(c.Context(), depot.ProgressOf(d.ID), ""); err != nil || len(used) > 0 || was != nil && was.ID == d.ID {
		return errors.Join(err, usageError{fmt.Errorf("there was a roll-out %s already: give another --id", d.ID)})
	}
	p := planOf(all, release, was, d)
	if r.output != "json" {
		p.print(c.OutOrStdout())
	}
	if err := r.confirm(c, "Publish it?"); err != nil {
		return err
	}
	if r.to != "" {
		payload, err := d.Encode()
		if err != nil {
			return err
		}
		e, err := fl.seal(c.Context(), signed.TypeRollout, payload, signers)
		if err != nil {
			return err
		}
		return r.written(c, r.to, "rollout/"+fl.channel, d.Serial, e)
	}
	if err := fl.publishRollout(c, before, d, signers); err != nil {
		return err
	}
	if err := r.say(c, p, func() { fmt.Fprintf(c.OutOrStdout(), "published: roll-out %s, serial %d\n", d.ID, d.Serial) }); err != nil || !r.watch {
		return err
	}
	return r.reconcile(c, fl, signers, r.every)
}

// past gives the serial that comes next, and the highest floor of secure versions of what was rolled out in the channel.
func (fl *fleet) past(c *cobra.Command, was *document.Rollout, all map[string]depot.Told) (serial, floor uint64, err error) {
	last, releases, err := fl.HistoryLast(c.Context(), fl.trust, fl.channel)
	if err != nil {
		return 0, 0, err
	}
	if was != nil {
		last = max(last, was.Serial)
		if !slices.Contains(releases, was.Release) {
			releases = append(releases, was.Release)
		}
	}
	for _, sha := range releases {
		r, _, err := fl.Release(c.Context(), fl.trust, sha)
		if err != nil { // it was removed, or its key was replaced: gateways know their floor themselves
			fmt.Fprintf(c.ErrOrStderr(), "warning: its floor is not known: %v\n", err)
			continue
		}
		floor = max(floor, r.MinSecureVersion)
	}
	a := fl.ahead(all, last)
	tellAhead(c.ErrOrStderr(), "rollout/"+fl.channel, &a)
	serial, err = depot.NextSerial(fl.trust, a.Most)
	return serial, floor, err
}

// rolloutPlan is what a roll-out would do.
type rolloutPlan struct {
	ID       string            `json:"id"`
	Channel  string            `json:"channel"`
	Serial   uint64            `json:"serial"`
	Version  string            `json:"version"`
	Release  string            `json:"release"`
	Replaces string            `json:"replaces,omitempty"` // the id of the roll-out before
	Known    int               `json:"known"`              // gateways of the channel
	Meant    int               `json:"meant"`              // of those, by board and name
	Has      int               `json:"has"`                // of those, run this release already
	Nothing  int               `json:"nothing"`            // of those, the release has no program for
	Away     int               `json:"away"`               // of those, not heard of for two days
	Waves    []rollout.Planned `json:"waves"`
	from     map[string]int
	replaced *document.Rollout
}

func planOf(all map[string]depot.Told, release *releaseRow, was, d *document.Rollout) *rolloutPlan {
	p := &rolloutPlan{ID: d.ID, Channel: d.Channel, Serial: d.Serial, Version: release.Version, Release: release.Release, Known: len(all), Waves: rollout.Plan(d, known(all)), from: map[string]int{}, replaced: was}
	if was != nil {
		p.Replaces = was.ID
	}
	for name, t := range all {
		if !d.Audience.Includes(name, t.Board) {
			continue
		}
		p.Meant++
		p.from[t.Version]++
		if t.Running == release.Release {
			p.Has++
		}
		_, self := release.is.Find("self", t.Arch, t.Board)
		_, rauc := release.is.Find("rauc", t.Arch, t.Board)
		if self != nil && rauc != nil {
			p.Nothing++
		}
		if d.WaveMs-t.WrittenMs > rollout.AbsentAfter.Milliseconds() {
			p.Away++
		}
	}
	return p
}

func (p *rolloutPlan) print(w io.Writer) {
	fmt.Fprintf(w, "roll-out %s: release %s (%.12s) in channel %s, serial %d\n", p.ID, p.Version, p.Release, p.Channel, p.Serial)
	if was := p.replaced; was != nil {
		fmt.Fprintf(w, "  in the place of roll-out %s, which is in wave %d of %d\n", was.ID, was.Wave+1, max(1, len(was.Waves)))
	}
	fmt.Fprintf(w, "  %d of %d gateways are meant; %d run it already, %d find no program in it, %d have not been heard of for two days\n", p.Meant, p.Known, p.Has, p.Nothing, p.Away)
	if p.Meant == 0 {
		fmt.Fprintf(w, "  NOBODY is meant as far as is known: see --channel, --board and --gateway, and weir fleet devices\n")
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "  WAVE\tSHARE\tAT LEAST\tNEW\tTOGETHER")
	for _, one := range p.Waves {
		fmt.Fprintf(t, "  %d\t%s\t%s\t%d\t%d\n", one.Wave, rollout.Share(one.Permille), one.Soak, one.New, one.Total)
	}
	t.Flush()
}
