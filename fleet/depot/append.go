package depot

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
)

// commandsMost and payloadMost bound a list of commands: its form, and what an envelope of 1 MiB holds, with room for its signatures.
const (
	commandsMost = 64
	payloadMost  = (signed.BytesMax - 32<<10) / 4 * 3
)

// Append is the list with one more command, whose serial is given here. Those that have been answered, or have expired, drop out; when there is no room, the oldest. dropped are those that
// may not have been carried out. The list that is given stays as it is.
func Append(list *document.Commands, c document.Command, answered func(serial uint64) bool, nowMs int64) (next *document.Commands, dropped []document.Command, err error) {
	n := *list
	n.List = nil
	for _, old := range list.List {
		if answered == nil || !answered(old.Serial) {
			if old.ExpiresMs == 0 || old.ExpiresMs > nowMs {
				n.List = append(n.List, old)
			}
		}
	}
	n.Serial++
	n.CreatedMs = max(nowMs, list.CreatedMs)
	c.Serial = n.Serial
	n.List = append(slices.Clone(n.List), c)
	for {
		b, err := n.Encode()
		switch {
		case len(n.List) > commandsMost, err == nil && len(b) > payloadMost:
			if len(n.List) == 1 {
				return nil, nil, fmt.Errorf("the command alone has %d bytes, %d are allowed", len(b), payloadMost)
			}
			dropped = append(dropped, n.List[0])
			n.List = n.List[1:]
		case err != nil:
			return nil, nil, err
		default:
			return &n, dropped, nil
		}
	}
}

// NewCommands is the empty list of a scope; serial is that of the command before, 0: none.
func NewCommands(fleet, scope string, serial uint64) (*document.Commands, error) {
	if fleet == "" || scope == "" {
		return nil, errors.New("a list of commands needs its fleet and scope")
	}
	return &document.Commands{Fleet: fleet, Scope: scope, Serial: serial}, nil
}
