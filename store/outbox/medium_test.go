package outbox

import (
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
	"math/rand/v2"
)

type medium struct{ d *log.Disk }

func newMedium() medium                    { return medium{log.NewDisk()} }
func (m medium) fs() disk.FS               { return m.d }
func (m medium) crash(r *rand.Rand) medium { return medium{m.d.Crash(r)} }
