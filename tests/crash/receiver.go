package crash

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// roleEnv makes this test's binary act as the receiver, so that it can be killed like the agent.
const roleEnv = "WEIR_CRASH_RECEIVER"

// receiverFile is the upstream's own data.
const receiverFile = "receiver.db"

// upstream is the far end of a run.
type upstream interface {
	http.Handler
	Streams() ([]string, error)
	Records(s uplink.Stream, f func(generation uint64, l wire.Line) error) error
	Close() error
}

// openUpstream opens what a scenario's receiver names: "" is the reference receiver.
func openUpstream(kind, file string, logger *slog.Logger) (upstream, error) {
	switch kind {
	case "":
		return receiver.Open(receiver.Options{Path: file, Config: receiver.Default(), Logger: logger})
	case scatteredKind:
		return openScattered(file, os.Getenv("WEIR_FAULT") == "open-highest")
	}
	return nil, fmt.Errorf("no receiver is called %q", kind)
}

// runReceiver serves an upstream on an address. One answer in a hundred is lost after the receiver has committed: the agent
// cannot know whether the batch arrived.
func runReceiver(kind, addr, file string) error {
	r, err := openUpstream(kind, file, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if rand.IntN(100) > 0 {
			r.ServeHTTP(w, req)
			return
		}
		r.ServeHTTP(httptest.NewRecorder(), req)
		if h, ok := w.(http.Hijacker); ok {
			if c, _, err := h.Hijack(); err == nil {
				c.Close()
			}
		}
	}))
}

// receiverMain is the child's main.
func receiverMain(args string) int {
	var addr, file, kind string
	if n, err := fmt.Sscan(args, &addr, &file, &kind); n < 2 { // the kind may be empty
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := runReceiver(kind, addr, file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
