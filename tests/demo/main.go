// Command demo shows what weir promises, on real sensor data: it plays recorded readings of road sensors through a broker, kills the
// agent with SIGKILL every few seconds, keeps a live ledger, and at the end compares everything that arrived upstream with
// answers that were computed without weir.
//
// `make run` builds the agent and starts it. The broker (tests/rig) and the receiver run in this process, the agent is its
// child. It ends only processes that it started.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes: 0 everything arrived exactly once; 1 it did not; 2 the demo could not run; 130 interrupted before the end.
const (
	exitWrong       = 1
	exitFailed      = 2
	exitInterrupted = 130
)

// options of a run.
type options struct {
	weir, config, data string
	dir                string        // a directory is made in it and removed after a good end
	play               time.Duration // how long one pass over the recording takes
	killEvery          time.Duration // on average
	forever            bool
	keep               bool
	refresh            time.Duration // of the ledger when it is not a terminal
}

func main() {
	o := options{play: 45 * time.Second, killEvery: 3500 * time.Millisecond, refresh: 3 * time.Second}
	flag.StringVar(&o.weir, "weir", "bin/weir", "the agent")
	flag.StringVar(&o.config, "config", "configs/demo.yaml", "the demo's pipelines")
	flag.StringVar(&o.data, "data", "tests/testdata/nab-traffic", "recording and known answers")
	flag.StringVar(&o.dir, "dir", "run", "where the demo's state is kept while it runs; a disk, or nothing is written to one")
	flag.BoolVar(&o.forever, "forever", false, "play the recording again and again, each time later, until Ctrl-C")
	flag.BoolVar(&o.keep, "keep", false, "keep the directory: config, logs, state, receiver file")
	fast := flag.Bool("fast", false, "a short form: the same data in 5 seconds")
	flag.Parse()
	if *fast {
		o.fast()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, o, newScreen(os.Stdout, o.refresh))
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "interrupted before the end: nothing was compared")
		os.Exit(exitInterrupted)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(exitFailed)
	case !ok:
		os.Exit(exitWrong)
	}
}

func (o *options) fast() {
	o.play, o.killEvery, o.refresh = 5*time.Second, 1200*time.Millisecond, time.Second
}
