package depot

import (
	"reflect"
	"strings"
	"testing"
)

var sha = strings.Repeat("0a", 32)

func names() []Name {
	return []Name{
		{Kind: KindRoot, Number: 3}, {Kind: KindRelease, SHA: sha}, {Kind: KindChunk, SHA: sha}, {Kind: KindRollout, Channel: "stable"},
		{Kind: KindChannelCommands, Channel: "a/b"}, {Kind: KindHistory, Channel: "_x", Number: 7}, {Kind: KindDeviceCommands, Gateway: "gw 1"}, {Kind: KindState, Gateway: ".gw"},
		{Kind: KindResult, Gateway: "gw-1", Scope: "device/gw-1", Number: 12, Since: 1}, {Kind: KindFile, Gateway: "gw-1", File: "diagnostics/device-3.tar.gz"},
		{Kind: KindProgress, Rollout: "r-1", Gateway: "gw.json"},
		{Kind: KindLease, Channel: "stable.json"}, {Kind: KindClock},
	}
}

func TestParseIsTheInverse(t *testing.T) {
	for _, n := range names() {
		back, err := Parse(n.String())
		if err != nil || !reflect.DeepEqual(back, n) {
			t.Errorf("%s: %+v %v, want %+v", n, back, err, n)
		}
		if !strings.HasPrefix(n.String(), Prefix) {
			t.Errorf("%s is beside the fleet's names", n)
		}
	}
}

func TestNamesAreThoseOfTheFormat(t *testing.T) {
	for is, want := range map[string]string{
		Root(2): "_fleet/roots/2.json", Release(sha): "_fleet/release/" + sha + ".json", Chunk(sha): "_fleet/chunk/" + sha, Rollout("stable"): "_fleet/channel/stable/rollout.json",
		ChannelCommands("stable"): "_fleet/channel/stable/commands.json", History("stable", 4): "_fleet/channel/stable/history/4.json", DeviceCommands("a b"): "_fleet/device/a~20b/commands.json",
		State("gw"): "_fleet/report/gw/state.json", Result("gw", "device/gw", 1, 5): "_fleet/report/gw/result/device~2Fgw-5-1.json", File("gw", "x/y"): "_fleet/report/gw/file/x/y",
		Progress("r1", "gw"): "_fleet/rollout/r1/gw.json",
		leaseOf("a b"):       "_fleet/lease/a~20b", clockName: "_fleet/clock/now",
	} {
		if is != want {
			t.Errorf("%s, want %s", is, want)
		}
	}
}

func TestNamesThatAreNone(t *testing.T) {
	for _, s := range []string{"", "_fleet/", "_fleet/roots/0.json", "_fleet/roots/01.json", "_fleet/roots/1", "_fleet/release/xx.json", "_fleet/chunk/" + strings.ToUpper(sha), "gw/claim", "_fleet/channel//rollout.json",
		"_fleet/device/gw/commands", "_fleet/report/gw/result/x-1.json", "_fleet/report/gw/file/", "_fleet/report/gw/file/a//b", "_fleet/report/gw/file/a~2Fb", "_fleet/rollout/r/a~0A.json", "_fleet/channel/stable/other.json", "_fleet/lease/", "_fleet/lease/a/b", "_fleet/clock/then", "_fleet/clock"} {
		if n, err := Parse(s); err == nil {
			t.Errorf("%q is taken for %+v", s, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, n := range names() {
		f.Add(n.String())
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := Parse(s); err == nil && n.String() != s {
			t.Errorf("%q becomes %q", s, n)
		}
	})
}
