package upgrade

import (
	"fmt"
	"slices"
	"time"
)

// What the gates of a commit ask for.
const (
	UpSelf           = 120 * time.Second // of a program
	UpSystem         = 600 * time.Second // of a whole system
	CheckpointsAsked = 3                 // of each pipeline since its restore: more prove no more
)

// Trial is how the new program fares.
type Trial struct {
	System    bool          // backend.Caps.NeedsReboot
	Up        time.Duration // of the process, or the machine
	On        time.Duration // probation, over all starts of this boot
	Pipelines []Tried
	Ends      []FarEnd
	Killed    string // a watchdog or the kernel's memory killer ended it in probation: what the service manager says; "": neither
	Fetched   bool   // a signed document was fetched and verified since the switch
}

// Tried is a pipeline, or a region of one, on trial.
type Tried struct {
	Name        string
	From        string // sha256 of the savepoint that it was restored from, hex
	Checkpoints int
	Why         string // it does not run; "": it does
}

// FarEnd is a source or a sink: the far end of a line.
type FarEnd struct {
	Name     string
	Answered bool // a source is connected; a sink has taken or prepared something, or says that it can
}

// Verdict on a trial. Neither Passed nor Failed: it goes on.
type Verdict struct {
	Passed  bool
	Offline bool     // passed without a word from the fleet: it had none in the day before either
	Failed  string   // it cannot pass any more
	Lacks   []string // what is missing yet
	Unheard bool     // nothing is but a word from the fleet
}

// Judge is pure: whether the program on trial passes. All of the gates have to hold at once.
func Judge(r Record, t Trial) (v Verdict) {
	lacks := func(bad bool, format string, args ...any) {
		if bad {
			v.Lacks = append(v.Lacks, fmt.Sprintf(format, args...))
		}
	}
	up := UpSelf
	if t.System {
		up = UpSystem
	}
	lacks(t.Up < up, "it is up for %s, and %s are asked for", t.Up.Round(time.Second), up)
	if on := time.Duration(r.Probation) * time.Millisecond; t.On < on {
		lacks(true, "it is on probation for %s, and %s are asked for", t.On.Round(time.Second), on)
	}
	for _, s := range r.Savings {
		i := slices.IndexFunc(t.Pipelines, func(p Tried) bool { return p.Name == s.Name })
		if i < 0 {
			v.Failed = fmt.Sprintf("pipeline %s is not there any more", s.Name)
			continue
		}
		p := t.Pipelines[i]
		if !s.Live && !r.Discard && p.Why == "" && p.From != s.SHA256 {
			v.Failed = fmt.Sprintf("pipeline %s was restored from %q, and its savepoint is %q", s.Name, p.From, s.SHA256)
		}
	}
	for _, p := range t.Pipelines {
		lacks(p.Why != "", "pipeline %s does not run: %s", p.Name, p.Why)
		lacks(p.Why == "" && p.Checkpoints < CheckpointsAsked, "pipeline %s has %d checkpoints since its restore, and %d are asked for", p.Name, p.Checkpoints, CheckpointsAsked)
	}
	for _, e := range t.Ends {
		lacks(!e.Answered && !slices.Contains(r.Away, e.Name), "%s does not answer, and did before the switch", e.Name)
	}
	others := len(v.Lacks)
	lacks(!t.Fetched && r.Contact, "no signed document was fetched since the switch, and there was contact in the day before it")
	if t.Killed != "" {
		v.Failed = "it was ended in its probation: " + t.Killed
	}
	v.Unheard = v.Failed == "" && others == 0 && len(v.Lacks) > 0
	v.Passed = v.Failed == "" && len(v.Lacks) == 0
	v.Offline = v.Passed && !t.Fetched
	return v
}
