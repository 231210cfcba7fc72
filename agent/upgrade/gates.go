package upgrade

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/fleet/document"
)

// Reason why a program is not taken, or not now. Text is for whoever is woken by it: what was found, and what is needed.
type Reason struct {
	Cause Cause
	Text  string
	Wait  bool // it passes by itself: asked again later. Else the upgrade fails
}

// Beginning is what is known when an upgrade was asked for. The document's signatures, fleet, serial and audience were checked before.
type Beginning struct {
	Release  *document.Release
	Artifact *document.Artifact
	Policy   document.Policy
	Expires  int64 // Unix ms; 0: never

	Arch     string // as GOARCH
	Board    string // profile of boards/
	Floor    uint64
	Rejected []string
	Runs     document.Compat     // what the running program reads and writes: `weir compat`
	Uses     map[string]struct{} // kinds of state that the pipelines have; nil: any

	Free       int64 // bytes, of the disk that has state_dir and the slots
	Savepoints int64 // bytes that S of all pipelines takes, as far as it is known
	Reserve    int64 // bytes that stay free

	Now     time.Time // in the gateway's time zone
	Trusted bool      // the clock
	Power   Power
	Percent int // of a battery that is needed without mains; 0: any
}

// Begin is pure: every reason against beginning now. None: the event is Passed.
func Begin(b *Beginning) (list []Reason) {
	gate := func(bad bool, format string, args ...any) {
		if bad {
			list = append(list, Reason{Cause: CauseGate, Text: fmt.Sprintf(format, args...)})
		}
	}
	a := b.Artifact
	list = expired(b)
	gate(slices.Contains(b.Rejected, a.SHA256), "artifact %.12s has failed on this gateway before: build another one", a.SHA256)
	gate(a.Arch != b.Arch, "the artifact is for %s, and this machine is %s", a.Arch, b.Arch)
	gate(len(a.Boards) > 0 && !slices.Contains(a.Boards, b.Board), "the artifact is for the boards %q, and this one is %q", a.Boards, b.Board)
	gate(b.Release.SecureVersion < b.Floor, "release %s has secure version %d, and this gateway takes none below %d", b.Release.Version, b.Release.SecureVersion, b.Floor)
	for _, why := range Compatible(b.Runs, a.Compat, b.Uses, b.Policy.DiscardState) {
		gate(true, "%s", why)
	}
	if need := 2*a.Bytes + b.Savepoints + b.Reserve; b.Free < need {
		list = append(list, Reason{Cause: CauseSpace, Text: fmt.Sprintf("%d bytes are free, and %d are needed: twice the artifact's %d, %d for savepoints, %d in reserve", b.Free, need, a.Bytes, b.Savepoints, b.Reserve)})
	}
	return append(list, passing(b)...)
}

// expired: what was asked for is asked for no longer. Only a clock that is trusted can say so.
func expired(b *Beginning) []Reason {
	if b.Expires == 0 || !b.Trusted || b.Now.UnixMilli() < b.Expires {
		return nil
	}
	return []Reason{{Cause: CauseExpired, Text: fmt.Sprintf("nobody begins behind %s, and it is %s", time.UnixMilli(b.Expires).In(b.Now.Location()).Format(time.RFC3339), b.Now.Format(time.RFC3339))}}
}

// Now is pure: the reasons of Begin that come and go, asked again right before pipelines are stopped: a fetch and a window may have taken days.
func Now(b *Beginning) []Reason { return append(expired(b), passing(b)...) }

// passing are the reasons that pass by themselves.
func passing(b *Beginning) (list []Reason) {
	window, err := ParseWindow(b.Policy.Window)
	switch {
	case err != nil:
		list = append(list, Reason{Cause: CauseGate, Text: err.Error()})
	case !window.Holds(b.Now):
		list = append(list, Reason{Cause: CauseGate, Wait: true, Text: fmt.Sprintf("it is %s here, and the window is %s", b.Now.Format("15:04"), b.Policy.Window)})
	}
	if why := b.Power.Lacks(b.Percent); why != "" {
		list = append(list, Reason{Cause: CauseGate, Wait: true, Text: why})
	}
	return list
}

// Compatible is pure: why target cannot follow runs, or could not be gone back from. What lies on flash is what runs writes; a going back reads what target has written in the formats that are kept.
// State is only read forwards: going back is to S. discard gives up the state and the way back, not the formats that target begins from.
func Compatible(runs, target document.Compat, uses map[string]struct{}, discard bool) (why []string) {
	for _, name := range sorted(runs.Formats) {
		have, want := runs.Formats[name], target.Formats[name]
		_, there := target.Formats[name]
		switch {
		case !there:
			why = append(why, fmt.Sprintf("the new program does not say that it reads %s, which this gateway has at version %d", name, have.Writes))
		case have.Writes < want.Least || have.Writes > want.Most:
			why = append(why, fmt.Sprintf("the new program reads %s from version %d to %d, and this gateway has version %d", name, want.Least, want.Most, have.Writes))
		case !discard && (want.Writes < have.Least || want.Writes > have.Most):
			why = append(why, fmt.Sprintf("the new program writes %s version %d, and the one that runs reads %d to %d: it could not be gone back from (go by a release that reads both, or set discard_state)", name, want.Writes, have.Least, have.Most))
		}
	}
	if discard {
		return why
	}
	for _, kind := range sorted(runs.State) {
		if _, used := uses[kind]; uses != nil && !used {
			continue
		}
		have, want := runs.State[kind].Writes, target.State[kind]
		if _, there := target.State[kind]; !there || have < want.Least || have > want.Most {
			reads := fmt.Sprintf("reads version %d to %d", want.Least, want.Most)
			if !there {
				reads = "does not know it"
			}
			why = append(why, fmt.Sprintf("savepoints hold %s at version %d, and the new program %s (savepoints are of no use to it; discard_state begins without)", kind, have, reads))
		}
	}
	return why
}

func sorted(m map[string]document.Versions) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
