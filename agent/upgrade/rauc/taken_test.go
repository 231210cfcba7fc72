package rauc

import (
	"context"
	"os"
	"time"
)

// taken is a backend beside which weir-reboot.service takes each request.
type taken struct{ *Backend }

func (b taken) Restart(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- b.Backend.Restart(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(time.Millisecond):
			os.Remove(b.Reboot)
		}
	}
}
