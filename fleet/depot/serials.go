package depot

import (
	"errors"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/fleet/strict"
)

// NextSerial is the serial of what is published next in a place, last being the highest that is known to have been taken by gateways there, 0: none.
func NextSerial(t *signed.Trust, last uint64) (uint64, error) {
	n := max(last+1, t.Floor(signed.RoleDeploy), 1)
	if n > strict.SerialMost {
		return 0, errors.New("the serials are used up, which no operator does: replace all keys of the role deploy (weir keys rotate), and raise no floor")
	}
	return n, nil
}

// ReachMost is how far above what is signed in the store a serial is believed that somebody tells of whose word is not signed by the role deploy. A store that was restored from a backup lacks fewer documents than that, and
// a gateway that lies, or who writes in its name, moves the next serial no further: millions of such lies do not use the serials up.
const ReachMost = 1 << 30

// Claim is the serial of the newest document of a scope that a gateway says it has verified.
type Claim struct {
	Serial   uint64
	Verified bool // its report is signed by a key that somebody has vouched for
}

// Claims are what the gateways say of a scope. What they know of keys that were all replaced since counts no more: they forget it when they have the newer root.
func Claims(all map[string]Told, t *signed.Trust, of func(*Serials) uint64) map[string]Claim {
	m := map[string]Claim{}
	for gateway, told := range all {
		if n := of(&told.Serials); n > 0 && told.Root >= t.Since(signed.RoleDeploy) {
			m[gateway] = Claim{n, told.Verified}
		}
	}
	return m
}

// Serials are those of the scopes that a gateway looks at, as it reports them. 0: none, or not told.
type Serials struct{ Rollout, Commands, Device uint64 }

func serialsOf(s *document.State) Serials {
	return Serials{s.Serials["rollout/"+s.Channel], s.Serials[document.ScopeChannel+s.Channel], s.Serials[document.ScopeDevice+s.Gateway]}
}

// Ahead is how far gateways are ahead of the store in a scope: then they refuse what lies there as a replay. Most is Holds where none is.
type Ahead struct {
	Holds    uint64 `json:"holds"`    // the serial in the store; 0: there is none that counts
	Most     uint64 `json:"most"`     // the highest that is believed
	Gateways int    `json:"gateways"` // that have verified a higher one than Holds
	Verified int    `json:"verified"` // of those, by a key that somebody has vouched for
	Example  string `json:"example,omitempty"`
	Beyond   int    `json:"beyond,omitempty"` // that tell of one that is too high to be believed
	Liar     string `json:"beyond_example,omitempty"`
}

// AheadOf is pure. holds is the serial of what is signed in the store.
func AheadOf(holds uint64, claims map[string]Claim) Ahead {
	a := Ahead{Holds: holds, Most: holds}
	for gateway, c := range claims {
		switch {
		case c.Serial <= holds:
		case c.Serial-holds > ReachMost:
			if a.Beyond++; a.Liar == "" || gateway < a.Liar {
				a.Liar = gateway
			}
		default:
			a.Gateways++
			if c.Verified {
				a.Verified++
			}
			if c.Serial > a.Most || c.Serial == a.Most && gateway < a.Example {
				a.Most, a.Example = c.Serial, gateway
			}
		}
	}
	return a
}
