//go:build !nocentral

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/rollout"
	"github.com/weirstream/weir/fleet/signed"
)

// gateways are those of the channel, with what they said last.
func (fl *fleet) gateways(c *cobra.Command) (map[string]depot.Told, depot.Summary, error) {
	return fl.gatewaysWithin(c.Context())
}

func (fl *fleet) gatewaysWithin(ctx context.Context) (map[string]depot.Told, depot.Summary, error) {
	all, s, err := fl.reader.Gateways(ctx, true)
	if err != nil {
		return nil, s, err
	}
	maps.DeleteFunc(all, func(_ string, t depot.Told) bool { return t.Channel != fl.channel })
	return all, s, nil
}

// known is what rollout wants to know of gateways.
func known(all map[string]depot.Told) map[string]rollout.Gateway {
	m := make(map[string]rollout.Gateway, len(all))
	for name, t := range all {
		m[name] = rollout.Gateway{Board: t.Board, HeardMs: t.WrittenMs}
	}
	return m
}

// findings are all that a verdict needs.
type findings struct {
	rollout.Facts
	told    map[string]depot.Told // how the gateways fare
	summary depot.Summary
	ahead   depot.Ahead
}

func (fl *fleet) facts(c *cobra.Command, r *document.Rollout) (*findings, error) {
	all, s, err := fl.gateways(c)
	if err != nil {
		return nil, err
	}
	told, more, err := fl.reader.Progress(c.Context(), r.ID)
	if err != nil {
		return nil, err
	}
	s.Add(more)
	f := rollout.Facts{Gateways: known(all), Reports: make(map[string]rollout.Report, len(told))}
	newest := int64(0)
	for _, t := range all {
		newest = max(newest, t.WrittenMs)
	}
	for name, t := range told {
		f.Reports[name] = rollout.Report{Release: t.Release, State: t.State, Outcome: t.Outcome, WrittenMs: t.WrittenMs}
		newest = max(newest, t.WrittenMs)
	}
	plantedBlindness(&f)
	f.NowMs = fl.clock(c, newest) // behind the lists: nothing in them is of later
	return &findings{f, told, s, fl.ahead(all, r.Serial)}, nil
}

// standing is where a roll-out is.
type standing struct {
	Channel    string           `json:"channel"`
	ID         string           `json:"id"`
	Serial     uint64           `json:"serial"`
	Release    string           `json:"release"`
	Version    string           `json:"version,omitempty"`
	Wave       int              `json:"wave"` // from 1
	Waves      string           `json:"waves"`
	Permille   int              `json:"permille"`
	Halted     bool             `json:"halted"`
	Since      time.Time        `json:"wave_since"` // by the store's clock
	Verdict    *rollout.Verdict `json:"verdict"`
	Bad        []badGateway     `json:"bad,omitempty"`
	Ahead      *depot.Ahead     `json:"gateways_ahead,omitempty"` // the store holds an older document than gateways have verified
	Unverified int              `json:"unverified"`               // reports of gateways whose key is not known
	Refused    map[string]int   `json:"refused,omitempty"`
	Example    string           `json:"refused_example,omitempty"`
}

// badGateway is one that an operator wants to look at.
type badGateway struct {
	Gateway string `json:"gateway"`
	State   string `json:"state"`
	Outcome string `json:"outcome,omitempty"`
	Why     string `json:"why,omitempty"`
}

// badMost is how many of them are shown.
const badMost = 20

func stand(fl *fleet, r *document.Rollout, version string, v *rollout.Verdict, f *findings) *standing {
	s := &f.summary
	st := &standing{Channel: fl.channel, ID: r.ID, Serial: r.Serial, Release: r.Release, Version: version, Wave: r.Wave + 1, Waves: rollout.FormatWaves(r.Waves), Permille: r.Permille, Halted: r.Halted,
		Since: time.UnixMilli(r.WaveMs).UTC(), Verdict: v, Unverified: s.Unverified, Refused: s.Refused, Example: s.Example}
	if f.ahead.Gateways+f.ahead.Beyond > 0 {
		st.Ahead = &f.ahead
	}
	for _, name := range slices.Sorted(maps.Keys(f.told)) {
		t := f.told[name]
		if t.Release == r.Release && t.Outcome != "" && t.Outcome != rollout.Committed && len(st.Bad) < badMost {
			st.Bad = append(st.Bad, badGateway{name, t.State, t.Outcome, t.Why})
		}
	}
	return st
}

func (st *standing) print(w io.Writer) {
	halted := ""
	if st.Halted {
		halted = ", HALTED"
	}
	what := fmt.Sprintf("%.12s", st.Release)
	if st.Version != "" {
		what = st.Version
	}
	fmt.Fprintf(w, "channel %s: roll-out %s of %s, serial %d%s\n", st.Channel, st.ID, what, st.Serial, halted)
	if st.Waves != "" {
		fmt.Fprintf(w, "  wave %d of %s: %s of the gateways, since %s\n", st.Wave, st.Waves, rollout.Share(st.Permille), st.Since.Format("2006-01-02 15:04"))
	}
	n := &st.Verdict.Counts
	fmt.Fprintf(w, "  %d gateways are in: %d committed, %d under way, %d wait, %d away\n", n.Known, n.Committed, n.UnderWay, n.Waiting, n.Absent)
	fmt.Fprintf(w, "  %d rolled back, %d failed, %d silent; %d gated, %d expired, %d halted\n", n.RolledBack, n.Failed, n.Silent, n.Gated, n.Expired, n.Halted)
	for _, b := range st.Bad {
		fmt.Fprintf(w, "    %s: %s: %s\n", b.Gateway, b.Outcome, oneLine(b.Why))
	}
	fmt.Fprintf(w, "  %s\n", st.Verdict.Why)
	if st.Ahead != nil {
		tellAhead(w, "rollout/"+st.Channel, st.Ahead)
	}
	tellSummary(w, st.Unverified, st.Refused, st.Example)
}

func tellSummary(w io.Writer, unverified int, refused map[string]int, example string) {
	if unverified > 0 {
		fmt.Fprintf(w, "  %d reports are of gateways without a key in --device-keys: whoever may write to the store could have made them\n", unverified)
	}
	for _, why := range slices.Sorted(maps.Keys(refused)) {
		fmt.Fprintf(w, "  %d reports refused: %s (as %s)\n", refused[why], why, example)
	}
}

func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\t", " ").Replace(s) }

// current is the channel's roll-out; there has to be one that counts.
func (fl *fleet) current(c *cobra.Command) (depot.Current, *document.Rollout, error) {
	before, r, err := fl.CurrentRollout(c.Context(), fl.trust, fl.channel)
	switch {
	case err != nil:
		return before, nil, err
	case before.Err != nil:
		return before, nil, fmt.Errorf("the roll-out of channel %s does not count, gateways keep the one that they have seen: %w; publish one in its place: weir fleet rollout … --replace-unverified", fl.channel, before.Err)
	case r == nil:
		return before, nil, usageError{fmt.Errorf("channel %s has no roll-out", fl.channel)}
	}
	return before, r, nil
}

// versionOf is what people call a release, "" when it cannot be read.
func (fl *fleet) versionOf(c *cobra.Command, sha string) string {
	r, _, err := fl.Release(c.Context(), fl.trust, sha)
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "warning: %v\n", err)
		return ""
	}
	return r.Version
}

func fleetStatusCommand(f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how the roll-out of a channel goes, and what would become of it now", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			_, r, err := fl.current(c)
			if err != nil {
				if all, _, rerr := fl.gateways(c); rerr == nil { // the store may have lost what gateways have seen
					a := fl.ahead(all, 0)
					tellAhead(c.ErrOrStderr(), "rollout/"+fl.channel, &a)
				}
				return err
			}
			facts, err := fl.facts(c, r)
			if err != nil {
				return err
			}
			v := rollout.Judge(r, &facts.Facts)
			st := stand(fl, r, fl.versionOf(c, r.Release), &v, facts)
			if err := f.say(c, st, func() { st.print(c.OutOrStdout()) }); err != nil {
				return err
			}
			return attention(r, &v, fl.stands(&facts.ahead))
		},
	}
}

// attention is the error of what waits for somebody.
func attention(r *document.Rollout, v *rollout.Verdict, behind bool) error {
	switch {
	case behind:
		return fmt.Errorf("%w: gateways have verified a newer document than the store holds, and refuse that one", errAttention)
	case r.Halted:
		return fmt.Errorf("%w: the roll-out is halted", errAttention)
	case v.Stuck:
		return fmt.Errorf("%w: the roll-out is stuck", errAttention)
	}
	return nil
}

// publishRollout signs and publishes.
func (fl *fleet) publishRollout(c *cobra.Command, before depot.Current, r *document.Rollout, by []signed.Signer) error {
	payload, err := r.Encode()
	if err != nil {
		return usageError{err}
	}
	e, err := fl.seal(c.Context(), signed.TypeRollout, payload, by)
	if err != nil {
		return err
	}
	return fl.PublishRollout(c.Context(), fl.trust, fl.channel, before, e)
}
