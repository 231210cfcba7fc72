package crash

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/weirstream/weir/uplink/receiver"
)

// roleEnv makes this test's binary act as the receiver, so that it can be killed like the agent.
const roleEnv = "WEIR_CRASH_RECEIVER"

// runReceiver serves the reference receiver on an address. One answer in a hundred is lost after the receiver has committed: the agent
// cannot know whether the batch arrived.
func runReceiver(addr, file string) error {
	r, err := receiver.Open(receiver.Options{Path: file, Config: receiver.Default(), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
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
	var addr, file string
	if _, err := fmt.Sscanf(args, "%s %s", &addr, &file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := runReceiver(addr, file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
