//go:build !nocentral

package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/agent/upgrade"
)

// TestARescueIsTheFirstProblem: a fleet is shown the first problem of a gateway, and one that runs no pipeline is not to be told by the disk that it lies on. What parks a pipeline then is no upgrade under way.
func TestARescueIsTheFirstProblem(t *testing.T) {
	list := problems(&api.Status{
		Flash:   &api.FlashStatus{Findings: []string{"state_dir is in memory"}},
		Upgrade: &api.UpgradeStatus{State: "committed", NotUsable: "no slot can be run"},
	})
	if len(list) < 2 || !strings.HasPrefix(list[0], "no pipeline runs: no slot can be run") {
		t.Errorf("%q", list)
	}
	r := upgrade.Record{State: upgrade.Committed, Active: upgrade.SlotA, Standby: upgrade.SlotB}
	u := &upgrader{rec: r, act: upgrade.Decide(r, upgrade.Situation{Booted: upgrade.Factory, Rescue: true})}
	err := u.parks("p")
	if !errors.Is(err, errUpgrading) || !strings.HasPrefix(err.Error(), "no pipeline runs: ") || !strings.Contains(err.Error(), "weir upgrade") {
		t.Error(err)
	}
}

// TestAnApplyFromAfarIsTold: what becomes of a step's state is words, and a mistake is one of the command's config, not of the gateway's file.
func TestAnApplyFromAfarIsTold(t *testing.T) {
	var said strings.Builder
	tellApply(&said, &api.ApplyEvent{Pipeline: "p", Change: "changed", Steps: []savepoints.Line{{UID: "c", Fate: savepoints.Incompatible, Reason: "it was lag and is delta", Entries: 5}}})
	if want := "pipeline p: changed\n  step c: incompatible, 5 entries: it was lag and is delta\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
	if got := ofTheCommand("/etc/weir/weir.yaml:1:4: not valid", "/etc/weir/weir.yaml"); got != "the command's config:1:4: not valid" {
		t.Error(got)
	}
}
