//go:build !nocentral

package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket"
)

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
