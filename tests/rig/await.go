package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/api"
)

// AwaitStatus asks the agent behind a socket until its status is as wanted, for so long at the most, and gives that status. The error tells of an agent that
// ended meanwhile, or has the last status of one that did not get there.
func AwaitStatus(ctx context.Context, socket string, agent *Child, patience time.Duration, what string, done func(*api.Status) bool) (last api.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := api.Dial(socket)
	for ctx.Err() == nil {
		if s, err := client.Status(ctx); err == nil {
			if last = s; done(&s) {
				return s, nil
			}
		}
		select {
		case <-agent.Done():
			return last, fmt.Errorf("waiting until %s, the agent ended", what)
		case <-time.After(pollEvery):
		}
	}
	b, _ := json.Marshal(last)
	return last, fmt.Errorf("in vain waited until %s: %s", what, b)
}
