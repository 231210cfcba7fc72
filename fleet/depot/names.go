package depot

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirstream/weir/fleet/strict"
	"github.com/weirstream/weir/uplink/bucket"
)

// Kind is what lies under a name.
type Kind string

// The kinds of names.
const (
	KindRoot            Kind = "root"
	KindRelease         Kind = "release"
	KindChunk           Kind = "chunk"
	KindRollout         Kind = "rollout"
	KindChannelCommands Kind = "channel-commands"
	KindHistory         Kind = "history"
	KindDeviceCommands  Kind = "device-commands"
	KindState           Kind = "state"
	KindResult          Kind = "result"
	KindFile            Kind = "file"
	KindProgress        Kind = "progress"
	KindLease           Kind = "lease"
	KindClock           Kind = "clock"
)

// Prefix is what all names of a fleet begin with: no gateway's does, bucket.Escape leaves no _ at a beginning.
const Prefix = "_fleet/"

const suffix = ".json"

// Name is one name of the central store (fleet/FORMAT.md), taken apart. Its members are those that its kind has.
type Name struct {
	Kind    Kind
	Number  uint64 // root: its version. history: the serial. result: the command's serial
	SHA     string // release: of the manifest's payload. chunk: of its bytes. Hex
	Channel string
	Gateway string
	Rollout string // its id
	Scope   string // result: commands/CHANNEL or device/GATEWAY
	Since   uint64 // result: the role's, under which the serials were counted
	File    string // file: PATH below the gateway's files, without empty elements
}

// Root is the name of a root document.
func Root(version uint64) string { return Name{Kind: KindRoot, Number: version}.String() }

// Release is the name of a release manifest.
func Release(sha string) string { return Name{Kind: KindRelease, SHA: sha}.String() }

// Chunk is the name of a piece of an artifact.
func Chunk(sha string) string { return Name{Kind: KindChunk, SHA: sha}.String() }

// Rollout is the name of a channel's roll-out.
func Rollout(channel string) string { return Name{Kind: KindRollout, Channel: channel}.String() }

// ChannelCommands is the name of the commands for all gateways of a channel.
func ChannelCommands(channel string) string {
	return Name{Kind: KindChannelCommands, Channel: channel}.String()
}

// History is the name of a roll-out as it was published.
func History(channel string, serial uint64) string {
	return Name{Kind: KindHistory, Channel: channel, Number: serial}.String()
}

// DeviceCommands is the name of the commands for one gateway.
func DeviceCommands(gateway string) string {
	return Name{Kind: KindDeviceCommands, Gateway: gateway}.String()
}

// State is the name of what a gateway says of itself.
func State(gateway string) string { return Name{Kind: KindState, Gateway: gateway}.String() }

// Result is the name of what came of a command. since is that of the role deploy: where it rises, serials begin anew.
func Result(gateway, scope string, since, serial uint64) string {
	return Name{Kind: KindResult, Gateway: gateway, Scope: scope, Since: since, Number: serial}.String()
}

// File is the name of something that a gateway hands over.
func File(gateway, file string) string {
	return Name{Kind: KindFile, Gateway: gateway, File: file}.String()
}

// Progress is the name of how a gateway fares in a roll-out.
func Progress(rollout, gateway string) string {
	return Name{Kind: KindProgress, Rollout: rollout, Gateway: gateway}.String()
}

// leaseOf is the name of who reconciles a channel at this moment.
func leaseOf(channel string) string { return Name{Kind: KindLease, Channel: channel}.String() }

// Reports is what the names of all reports begin with, ReportsOf those of one gateway, with its slash.
const Reports = Prefix + "report/"

// ReportsOf is what the names of a gateway's reports begin with.
func ReportsOf(gateway string) string { return Reports + bucket.Escape(gateway) + "/" }

// ProgressOf is what the names of all progress of a roll-out begin with.
func ProgressOf(rollout string) string { return Prefix + "rollout/" + bucket.Escape(rollout) + "/" }

// Devices is what the names of all commands for single gateways begin with; Channels those of channels.
const (
	Devices  = Prefix + "device/"
	Channels = Prefix + "channel/"
)

// String is the name. It panics where the kind is not one of those above.
func (n Name) String() string {
	esc := bucket.Escape
	switch n.Kind {
	case KindRoot:
		return fmt.Sprintf("%sroots/%d%s", Prefix, n.Number, suffix)
	case KindRelease:
		return Prefix + "release/" + n.SHA + suffix
	case KindChunk:
		return Prefix + "chunk/" + n.SHA
	case KindRollout:
		return Channels + esc(n.Channel) + "/rollout" + suffix
	case KindChannelCommands:
		return Channels + esc(n.Channel) + "/commands" + suffix
	case KindHistory:
		return fmt.Sprintf("%s%s/history/%d%s", Channels, esc(n.Channel), n.Number, suffix)
	case KindDeviceCommands:
		return Devices + esc(n.Gateway) + "/commands" + suffix
	case KindState:
		return ReportsOf(n.Gateway) + "state" + suffix
	case KindResult:
		return fmt.Sprintf("%sresult/%s-%d-%d%s", ReportsOf(n.Gateway), esc(n.Scope), n.Number, n.Since, suffix)
	case KindFile:
		parts := strings.Split(n.File, "/")
		for i := range parts {
			parts[i] = esc(parts[i])
		}
		return ReportsOf(n.Gateway) + "file/" + strings.Join(parts, "/")
	case KindProgress:
		return ProgressOf(n.Rollout) + esc(n.Gateway) + suffix
	case KindLease:
		return Prefix + "lease/" + esc(n.Channel)
	case KindClock:
		return clockName
	}
	panic("BUG: no name of the kind " + string(n.Kind))
}

// Parse takes a name apart. It refuses all that String does not make of names that documents may have.
func Parse(name string) (Name, error) {
	n, ok := parse(name)
	if !ok || !n.sound() || n.String() != name {
		return Name{}, fmt.Errorf("name %q is not one of a fleet's", name)
	}
	return n, nil
}

func parse(name string) (n Name, ok bool) {
	rest, is := strings.CutPrefix(name, Prefix)
	parts := strings.Split(rest, "/")
	if !is || len(parts) < 2 {
		return n, false
	}
	last := strings.TrimSuffix(parts[len(parts)-1], suffix)
	switch head, count := parts[0], len(parts); {
	case head == "roots" && count == 2:
		n.Kind = KindRoot
		n.Number, ok = number(last)
	case head == "release" && count == 2:
		n.Kind, n.SHA, ok = KindRelease, last, true
	case head == "chunk" && count == 2:
		n.Kind, n.SHA, ok = KindChunk, parts[1], true
	case head == "channel" && count == 3:
		n.Kind = KindChannelCommands
		if last == "rollout" {
			n.Kind = KindRollout
		}
		n.Channel, ok = bucket.Unescape(parts[1])
	case head == "channel" && count == 4:
		var isNumber bool
		n.Kind = KindHistory
		n.Number, isNumber = number(last)
		n.Channel, ok = bucket.Unescape(parts[1])
		ok = ok && isNumber
	case head == "device" && count == 3:
		n.Kind = KindDeviceCommands
		n.Gateway, ok = bucket.Unescape(parts[1])
	case head == "report" && count >= 3:
		ok = n.parseReport(parts[1:], last)
	case head == "rollout" && count == 3:
		var isName bool
		n.Kind = KindProgress
		n.Rollout, isName = bucket.Unescape(parts[1])
		n.Gateway, ok = bucket.Unescape(last)
		ok = ok && isName
	case head == "lease" && count == 2:
		n.Kind = KindLease
		n.Channel, ok = bucket.Unescape(parts[1])
	case name == clockName:
		n.Kind, ok = KindClock, true
	}
	return n, ok
}

// parseReport takes the part behind report/ apart.
func (n *Name) parseReport(parts []string, last string) (ok bool) {
	if n.Gateway, ok = bucket.Unescape(parts[0]); !ok {
		return false
	}
	switch {
	case len(parts) == 2:
		n.Kind = KindState
		return true
	case parts[1] == "result" && len(parts) == 3:
		n.Kind = KindResult
		bits := strings.Split(last, "-")
		if len(bits) < 3 {
			return false
		}
		k := len(bits)
		var isNumber bool
		n.Since, isNumber = number(bits[k-1])
		n.Number, ok = number(bits[k-2])
		if !ok || !isNumber {
			return false
		}
		n.Scope, ok = bucket.Unescape(strings.Join(bits[:k-2], "-"))
		return ok
	case parts[1] == "file":
		n.Kind = KindFile
		var list []string
		for _, p := range parts[2:] {
			one, ok := bucket.Unescape(p)
			if !ok || one == "" || strings.Contains(one, "/") {
				return false
			}
			list = append(list, one)
		}
		n.File = strings.Join(list, "/")
		return true
	}
	return false
}

func number(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n <= strict.SerialMost
}

// sound tells that its texts are such as documents may have.
func (n *Name) sound() bool {
	for _, s := range []string{n.Channel, n.Gateway, n.Rollout} {
		if s != "" && strict.Name(s) != nil {
			return false
		}
	}
	switch n.Kind {
	case KindRelease, KindChunk:
		return isSHA(n.SHA)
	case KindRollout, KindChannelCommands, KindHistory, KindLease:
		return n.Channel != ""
	case KindProgress:
		return n.Rollout != "" && n.Gateway != ""
	case KindRoot:
		return n.Number > 0
	case KindClock:
		return true
	case KindResult:
		return n.Gateway != "" && n.Scope != ""
	}
	return n.Gateway != ""
}

func isSHA(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
