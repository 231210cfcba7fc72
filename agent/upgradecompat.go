//go:build !nocentral

package agent

import (
	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
)

// readsBack tells that this program can go on with what the new one leaves: only then results may leave while that is on trial, since going back is to its newest checkpoint.
func (u *upgrader) readsBack() bool {
	_, artifact, err := u.release()
	return err == nil && goesOnWith(compat.Current(), artifact.Compat)
}

// goesOnWith is pure: own goes on with the state that the new program has written, and makes the same results of it.
func goesOnWith(own, target document.Compat) bool {
	for kind, v := range target.State {
		if reads, known := own.State[kind]; !known || v.Writes < reads.Least || v.Writes > reads.Most {
			return false
		}
	}
	for step, version := range target.Behaviours {
		if own.Behaviours[step] != version {
			return false
		}
	}
	return len(upgrade.Compatible(own, target, nil, false)) == 0
}
