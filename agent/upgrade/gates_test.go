package upgrade

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirstream/weir/fleet/document"
)

func v(least, most, writes uint64) document.Versions {
	return document.Versions{Least: least, Most: most, Writes: writes}
}

func beginning() *Beginning {
	runs := document.Compat{Formats: map[string]document.Versions{"journal": v(1, 2, 2)}, State: map[string]document.Versions{"ops.dedup": v(1, 1, 1)}}
	return &Beginning{
		Release:  &document.Release{Version: "2.0", SecureVersion: 5},
		Artifact: &document.Artifact{Arch: "arm64", Bytes: 100, SHA256: digest("a"), Boards: []string{"rpi4"}, Compat: runs},
		Policy:   document.Policy{Window: "22:00-02:00"},
		Expires:  time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC).UnixMilli(),
		Arch:     "arm64", Board: "rpi4", Floor: 5, Runs: runs, Free: 251, Savepoints: 40, Reserve: 11,
		Now: time.Date(2030, 1, 1, 23, 30, 0, 0, time.UTC), Trusted: true,
		Power: Power{Battery: true, Percent: 30}, Percent: 30,
	}
}

// TestEachGate: alone it refuses, with its reason; just within it does not.
func TestEachGate(t *testing.T) {
	if list := Begin(beginning()); len(list) > 0 {
		t.Fatal(list)
	}
	other := func(f, s document.Versions) document.Compat {
		return document.Compat{Formats: map[string]document.Versions{"journal": f, "new": v(1, 1, 1)}, State: map[string]document.Versions{"ops.dedup": s}}
	}
	for _, c := range []struct {
		name  string
		set   func(*Beginning)
		cause Cause
		wait  bool
		text  string // "": no reason
	}{
		{"rejected", func(b *Beginning) { b.Rejected = []string{digest("a")} }, CauseGate, false, "has failed on this gateway"},
		{"arch", func(b *Beginning) { b.Artifact.Arch = "arm" }, CauseGate, false, "this machine is arm64"},
		{"board", func(b *Beginning) { b.Board = "rpi5" }, CauseGate, false, `this one is "rpi5"`},
		{"any board", func(b *Beginning) { b.Board, b.Artifact.Boards = "x", nil }, "", false, ""},
		{"floor", func(b *Beginning) { b.Floor = 6 }, CauseGate, false, "takes none below 6"},
		{"space", func(b *Beginning) { b.Free-- }, CauseSpace, false, "250 bytes are free, and 251 are needed"},
		{"expired", func(b *Beginning) { b.Expires = b.Now.UnixMilli() }, CauseExpired, false, "nobody begins behind 2030-01-01T23:30"},
		{"expired, as a clock says that nobody trusts", func(b *Beginning) { b.Expires, b.Trusted = 1, false }, "", false, ""},
		{"before the window", func(b *Beginning) { b.Now = b.Now.Add(-91 * time.Minute) }, CauseGate, true, "it is 21:59 here"},
		{"behind the window", func(b *Beginning) { b.Now, b.Expires = b.Now.Add(150*time.Minute), 0 }, CauseGate, true, "it is 02:00 here"},
		{"in the window, behind midnight", func(b *Beginning) { b.Now, b.Expires = b.Now.Add(149*time.Minute), 0 }, "", false, ""},
		{"a window that is none", func(b *Beginning) { b.Policy.Window = "2-4" }, CauseGate, false, "write it as"},
		{"battery", func(b *Beginning) { b.Power.Percent = 29 }, CauseGate, true, "29 %"},
		{"battery, on mains", func(b *Beginning) { b.Power = Power{Battery: true, Mains: true} }, "", false, ""},
		{"format unread", func(b *Beginning) { b.Artifact.Compat = other(v(3, 3, 3), v(1, 1, 1)) }, CauseGate, false, "reads journal from version 3 to 3, and this gateway has version 2"},
		{"format unread, whatever is discarded", func(b *Beginning) {
			b.Artifact.Compat, b.Policy.DiscardState = other(v(3, 3, 3), v(1, 1, 1)), true
		}, CauseGate, false, "journal"},
		{"format unknown", func(b *Beginning) { b.Artifact.Compat.Formats = nil }, CauseGate, false, "does not say that it reads journal"},
		{"no way back", func(b *Beginning) { b.Artifact.Compat = other(v(2, 3, 3), v(1, 1, 1)) }, CauseGate, false, "could not be gone back from"},
		{"no way back, and none is wanted", func(b *Beginning) {
			b.Artifact.Compat, b.Policy.DiscardState = other(v(2, 3, 3), v(1, 1, 1)), true
		}, "", false, ""},
		{"state unread", func(b *Beginning) { b.Artifact.Compat = other(v(1, 2, 2), v(2, 2, 2)) }, CauseGate, false, "savepoints hold ops.dedup at version 1"},
		{"state unread, and given up", func(b *Beginning) { b.Artifact.Compat, b.Policy.DiscardState = other(v(1, 2, 2), v(2, 2, 2)), true }, "", false, ""},
		{"state that nobody uses", func(b *Beginning) {
			b.Artifact.Compat, b.Uses = other(v(1, 2, 2), v(2, 2, 2)), map[string]struct{}{"join": {}}
		}, "", false, ""},
		{"state that is read and raised", func(b *Beginning) { b.Artifact.Compat = other(v(1, 2, 2), v(1, 2, 2)) }, "", false, ""},
	} {
		b := beginning()
		c.set(b)
		list := Begin(b)
		if c.text == "" && len(list) > 0 || c.text != "" && (len(list) != 1 || list[0].Cause != c.cause || list[0].Wait != c.wait || !strings.Contains(list[0].Text, c.text)) {
			t.Errorf("%s: %+v", c.name, list)
		}
	}
}

// TestTimeIsOverAtALaterGate: what was begun in time and waited for its window, or for its pieces, is not stopped for when its time is over.
func TestTimeIsOverAtALaterGate(t *testing.T) {
	b := beginning()
	b.Now, b.Expires = b.Now.Add(-91*time.Minute), b.Now.UnixMilli()
	if list := Now(b); len(list) != 1 || !list[0].Wait {
		t.Fatalf("before the window: %+v", list)
	}
	b.Now = time.UnixMilli(b.Expires).In(b.Now.Location())
	if list := Now(b); len(list) != 1 || list[0].Wait || list[0].Cause != CauseExpired {
		t.Errorf("in the window, and its time is over: %+v", list)
	}
	b.Trusted = false
	if list := Now(b); len(list) > 0 {
		t.Errorf("by a clock that nobody trusts: %+v", list)
	}
}

func TestReadPower(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	for _, c := range []struct {
		name string
		sys  fstest.MapFS
		want Power
	}{
		{"nothing", fstest.MapFS{}, Power{}},
		{"battery", fstest.MapFS{"BAT0/type": file("Battery"), "BAT0/capacity": file("41"), "BAT1/type": file("Battery"), "BAT1/capacity": file("7")}, Power{Battery: true, Percent: 41}},
		{"mains", fstest.MapFS{"AC/type": file("Mains"), "AC/online": file("1"), "BAT0/type": file("Battery"), "BAT0/capacity": file("x")}, Power{Battery: true, Mains: true}},
		{"unplugged", fstest.MapFS{"AC/type": file("USB"), "AC/online": file("0")}, Power{}},
		{"a mouse", fstest.MapFS{"m/type": file("Battery"), "m/capacity": file("3"), "m/scope": file("Device")}, Power{}},
		{"an empty bay", fstest.MapFS{"BAT0/type": file("Battery"), "BAT0/present": file("0")}, Power{}},
	} {
		if got, err := ReadPower(c.sys); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// TestJudge: all gates hold at once, or it does not pass; each alone keeps it.
func TestJudge(t *testing.T) {
	rec := func() Record {
		r := walk(t, Record{}, toProbation...)
		r.Probation, r.Away = 300_000, []string{"broker"}
		return r
	}
	trial := func() Trial {
		return Trial{Up: UpSelf, On: 300 * time.Second, Fetched: true, Pipelines: []Tried{{Name: "p", From: digest("5"), Checkpoints: 3}}, Ends: []FarEnd{{Name: "broker"}, {Name: "sink", Answered: true}}}
	}
	if v := Judge(rec(), trial()); !v.Passed || v.Offline || v.Failed != "" {
		t.Fatalf("%+v", v)
	}
	for _, c := range []struct {
		name   string
		set    func(*Record, *Trial)
		failed bool
		text   string
	}{
		{"young", func(_ *Record, t *Trial) { t.Up-- }, false, "up for"},
		{"a system", func(_ *Record, t *Trial) { t.System = true }, false, "10m0s"},
		{"on probation too short", func(_ *Record, t *Trial) { t.On-- }, false, "on probation"},
		{"checkpoints", func(_ *Record, t *Trial) { t.Pipelines[0].Checkpoints = 2 }, false, "2 checkpoints"},
		{"restored from another", func(_ *Record, t *Trial) { t.Pipelines[0].From = digest("6") }, true, "was restored from"},
		{"gone", func(_ *Record, t *Trial) { t.Pipelines = nil }, true, "not there"},
		{"stands", func(_ *Record, t *Trial) { t.Pipelines[0].Why = "panic" }, false, "does not run: panic"},
		{"sink", func(_ *Record, t *Trial) { t.Ends[1].Answered = false }, false, "sink does not answer"},
		{"killed", func(_ *Record, t *Trial) { t.Killed = "watchdog" }, true, "watchdog"},
		{"no contact", func(_ *Record, t *Trial) { t.Fetched = false }, false, "no signed document"},
	} {
		r, tr := rec(), trial()
		c.set(&r, &tr)
		v := Judge(r, tr)
		if v.Unheard != (c.name == "no contact") {
			t.Errorf("%s: that nothing lacks but a word from the fleet is %v", c.name, v.Unheard)
		}
		if v.Passed || (v.Failed != "") != c.failed || !strings.Contains(v.Failed+strings.Join(v.Lacks, "\n"), c.text) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	r, tr := rec(), trial()
	tr.Fetched, tr.Up = false, 0
	if v := Judge(r, tr); v.Unheard {
		t.Errorf("more than a word from the fleet lacks: %+v", v)
	}
	r, tr = rec(), trial()
	r.Contact, tr.Fetched = false, false
	if v := Judge(r, tr); !v.Passed || !v.Offline {
		t.Errorf("no contact before either: %+v", v)
	}
}
