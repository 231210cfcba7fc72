package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/api"
)

// progressEvery is how often a terminal is told how far a command is.
const progressEvery = 500 * time.Millisecond

// showProgress tells on standard error how far the running agent is with a pipeline, in one line that is written over, until stop. Only a terminal is
// told, and not beside JSON.
func (o *options) showProgress(c *cobra.Command, client *api.Client, pipeline string) (stop func()) {
	if o.output == "json" || !isTerminal(c) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(c.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		follow(ctx, progressEvery, client, pipeline, func(line string) { fmt.Fprintf(c.ErrOrStderr(), "\r%s\x1b[K", line) })
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// follow asks for the status until ctx ends, and shows each line that differs from the one before; at the end an empty one, if there was any.
func follow(ctx context.Context, every time.Duration, client *api.Client, pipeline string, show func(line string)) {
	last := ""
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if last != "" {
				show("")
			}
			return
		case <-tick.C:
		}
		s, err := client.Status(ctx)
		if err != nil {
			continue
		}
		for i := range s.Pipelines {
			p := &s.Pipelines[i]
			if p.Progress == nil || p.Name != pipeline && !strings.HasPrefix(p.Name, pipeline+"/") {
				continue
			}
			if line := p.Progress.String(); line != last {
				show(line)
				last = line
			}
		}
	}
}

// isTerminal tells whether standard error is one.
func isTerminal(c *cobra.Command) bool {
	f, ok := c.ErrOrStderr().(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
