package space

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/flash"
)

// Storage is what lies below state_dir, as far as it can be told without writing.
type Storage struct {
	Disk     string          `json:"disk"` // "" not known
	NotKnown string          `json:"not_known,omitempty"`
	Wear     string          `json:"wear"`
	Findings []flash.Finding `json:"findings,omitempty"`
}

// StorageOf looks at the storage of a config's state_dir. It changes nothing; whether an fsync reaches the disk is only tried at a start.
func StorageOf(cfg *config.Config) Storage {
	sys, dir, device := flash.System{}, cfg.StateDir.Value, cfg.Flash.Device
	if device == config.FlashDeviceAuto {
		device = ""
	}
	d := sys.Locate(dir, device)
	return Storage{Disk: d.Name(), NotKnown: d.Why, Wear: sys.Wear(d.Disks).String(), Findings: sys.Examine(dir, d)}
}
