//go:build !nocentral

package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/uplink/central"
)

func centralRemoveCommand(o *options) *cobra.Command {
	f := &centralFlags{}
	c := &cobra.Command{
		Use: "rm PIPELINE", Short: "Let the uploads of a pipeline go that left the config",
		Long: `Removes the pipeline's head, by name or UUID. From then on it cannot be restored from the central store; its pieces are removed by the gateway's device, a day later, and so are
the shipped records that no other pipeline's upload needs. A pipeline that is
in the config is uploaded anew, all of its state.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			fetcher, _, list, err := f.list(c.Context(), o)
			if err != nil {
				return err
			}
			upload, err := uploadOf(list, args[0])
			if errors.Is(err, central.ErrNothing) {
				err = errors.Join(err, errors.New("see weir central ls; one that cannot be read has no name but its UUID"))
			}
			if err != nil {
				return err
			}
			shipped, err := fetcher.Shipped(c.Context())
			if err != nil {
				return err
			}
			if err := central.Remove(c.Context(), fetcher.Bucket, fetcher.Gateway, upload.UUID); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: its uploads are let go\n", upload.UUID)
			return tellRecords(c.OutOrStdout(), upload, list, shipped)
		},
	}
	f.add(c)
	return c
}

// showFetch tells how far a fetch is, until stop.
func (o *options) showFetch(c *cobra.Command, f *central.Fetcher) (stop func()) {
	f.Told, stop = o.showBytes(c)
	return stop
}

// showBytes is what a fetch tells how far it is: in one line on standard error that is written over, until stop. Only a terminal is told, and not beside JSON.
func (o *options) showBytes(c *cobra.Command) (told func(done, all uint64), stop func()) {
	if o.output == "json" || !isTerminal(c) {
		return nil, func() {}
	}
	return bytesLine(progressEvery, time.Now, func(line string) { fmt.Fprintf(c.ErrOrStderr(), "\r%s\x1b[K", line) })
}

// bytesLine shows at most a line in every, and the whole; at the end an empty one, if there was any. stop may be repeated.
func bytesLine(every time.Duration, now func() time.Time, show func(line string)) (told func(done, all uint64), stop func()) {
	var mu sync.Mutex
	var last time.Time
	shown := false
	told = func(done, all uint64) {
		mu.Lock()
		defer mu.Unlock()
		if t := now(); done == all || t.Sub(last) >= every {
			last, shown = t, true
			show(fmt.Sprintf("fetched %d of %d bytes, %d %%", done, all, done*100/max(all, 1)))
		}
	}
	stop = func() {
		mu.Lock()
		defer mu.Unlock()
		if shown {
			show("")
		}
		shown = false
	}
	return told, stop
}
