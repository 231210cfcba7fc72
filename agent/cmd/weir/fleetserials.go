//go:build !nocentral

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket"
)

// ahead is how far the gateways of the channel are ahead of its roll-out, holds being the serial of what is signed of it in the store.
func (fl *fleet) ahead(all map[string]depot.Told, holds uint64) depot.Ahead {
	return depot.AheadOf(holds, depot.Claims(all, fl.trust, func(s *depot.Serials) uint64 { return s.Rollout }))
}

// stands tells whether what reports say of serials is to keep a roll-out from going on: where keys of gateways are known, those that nobody vouches for do not.
func (fl *fleet) stands(a *depot.Ahead) bool {
	return a.Verified > 0 || a.Gateways > 0 && len(fl.reader.Keys) == 0
}

// tellAhead says that the store is behind the gateways, and whose word is not believed.
func tellAhead(w io.Writer, scope string, a *depot.Ahead) {
	if a.Gateways > 0 {
		holds := fmt.Sprintf("holds serial %d", a.Holds)
		if a.Holds == 0 {
			holds = "holds no document that counts"
		}
		fmt.Fprintf(w, "  the store %s of %s, and %d gateways (%d of them by a key in --device-keys; %s, say) have verified up to %d: they refuse what lies there as a replay, if it is not newer\n", holds, scope, a.Gateways, a.Verified, a.Example, a.Most)
		fmt.Fprintln(w, "  was the store restored from a backup, or has somebody put an old document there? What is published with weir fleet rollout, halt, resume or command gets a serial above theirs")
	}
	if a.Beyond > 0 {
		fmt.Fprintf(w, "  %d gateways (%s, say) report a serial of %s that nobody has given out; it counts for nothing: the report is forged, or the gateway is somebody else's; see docs/security.md\n", a.Beyond, a.Liar, scope)
	}
}

// reportsWait bounds how long a halt, which is published, looks for gateways that do not see it.
const reportsWait = time.Minute

// above publishes a halt again, where gateways have verified a newer document than the store held: they refuse the first, of the same serial as well. held is the serial before.
func (fl *fleet) above(c *cobra.Command, r *document.Rollout, held uint64, by []signed.Signer) error {
	ctx, cancel := context.WithTimeout(c.Context(), reportsWait)
	defer cancel()
	all, _, err := fl.gatewaysWithin(ctx)
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "warning: whether gateways have seen a newer document than the store held is not known: %v; see weir fleet status\n", err)
		return nil
	}
	a := fl.ahead(all, held)
	if tellAhead(c.ErrOrStderr(), "rollout/"+r.Channel, &a); a.Gateways == 0 {
		return nil
	}
	before, now, err := fl.current(c)
	if err != nil {
		return err
	}
	if now.Serial != r.Serial { // somebody else has gone on
		return depot.ErrLost
	}
	n := *r
	n.Serial, n.CreatedMs = a.Most+1, max(r.CreatedMs, time.Now().UnixMilli())
	if err := fl.publishRollout(c, before, &n, by); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "halted above what gateways have seen: roll-out %s, serial %d\n", n.ID, n.Serial)
	return nil
}

// scopeClaims are what gateways say that they have verified of a list of commands.
func (fl *fleet) scopeClaims(c *cobra.Command, scope string) (map[string]depot.Claim, error) {
	gateway, is := scopeOf(scope)
	if !is {
		all, _, err := fl.gateways(c)
		return depot.Claims(all, fl.trust, func(s *depot.Serials) uint64 { return s.Commands }), err
	}
	told, err := fl.reader.Gateway(c.Context(), gateway)
	return depot.Claims(told, fl.trust, func(s *depot.Serials) uint64 { return s.Device }), err
}

// answersMost is how many results are read for a list of commands, beside those of the commands in it.
const answersMost = 64

// answers are the serials of a gateway's scope that have a result, and the highest of them; of those in the list, and of the highest above it. A name alone is nobody's word: who may write to the store may write any, and what lies
// under it is read. Of a channel's commands nobody knows who has still to do them.
func (fl *fleet) answers(c *cobra.Command, scope string, list *document.Commands) (m map[uint64]bool, last uint64, err error) {
	m = map[uint64]bool{}
	gateway, is := scopeOf(scope)
	if !is {
		return m, 0, nil
	}
	var serials []uint64
	since := fl.trust.Since(signed.RoleDeploy)
	err = bucket.Each(c.Context(), fl.Bucket, depot.ReportsOf(gateway)+"result/", func(o bucket.Object) error {
		n, err := depot.Parse(o.Name)
		if err == nil && n.Kind == depot.KindResult && n.Scope == scope && n.Since == since && (n.Number <= list.Serial || n.Number-list.Serial <= depot.ReachMost) {
			serials = append(serials, n.Number)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(serials)
	slices.Reverse(serials)
	for i, n := range serials {
		above := n > list.Serial && last == 0 && i < answersMost
		if !above && !slices.ContainsFunc(list.List, func(one document.Command) bool { return one.Serial == n }) {
			continue
		}
		name := depot.Result(gateway, scope, since, n)
		switch _, err := fl.result(c, gateway, name); {
		case err == nil:
			m[n], last = true, max(last, n)
		case errors.Is(err, bucket.ErrNotFound):
		default:
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s counts for nothing: %v\n", name, err)
		}
	}
	return m, last, nil
}
