package depot

import (
	"errors"

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
