package boards

import "fmt"

// Profile is what is known of a board. What is empty is not known, or does not exist there: docs/boards.md tells for each field. Sources says where it is from.
type Profile struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Detect   Detect     `json:"detect"`
	Arch     string     `json:"arch"`              // of Go: arm64, arm, amd64
	GOARM64  string     `json:"goarm64,omitempty"` // architecture level to build for; one of the two at most
	GOARM    string     `json:"goarm,omitempty"`
	CPUs     int        `json:"cpus,omitempty"`   // 0: any
	RAMMB    []int      `json:"ram_mb,omitempty"` // sizes that are sold; the smallest and the largest
	Storage  []*Storage `json:"storage,omitempty"`
	RTC      RTC        `json:"rtc,omitzero"`
	Watchdog Watchdog   `json:"watchdog,omitzero"`
	LEDs     LEDs       `json:"leds,omitzero"`
	Power    Power      `json:"power,omitzero"`
	Thermal  string     `json:"thermal_zone,omitempty"` // thermal zone, a directory in /sys
	Updater  Updater    `json:"updater,omitzero"`
	Limits   Limits     `json:"limits,omitzero"`
	Journal  Journal    `json:"journal,omitzero"`
	// Checkpoint and Journal set defaults of the config; 0 and "" leave those that are built in.
	Checkpoint Checkpoint `json:"checkpoint,omitzero"`
	Flash      Flash      `json:"flash,omitzero"`
	Quirks     []string   `json:"quirks,omitempty"` // one sentence each
	Tested     string     `json:"tested"`           // untested, community, lab, ci-qemu
	Sources    []*Source  `json:"sources"`
}

// Detect is how the board is known.
type Detect struct {
	// Compatible are strings of the root node of a device tree, each of which means this board.
	Compatible []string `json:"dt_compatible,omitempty"`
	// DMI are what firmware without a device tree says.
	DMI []*DMI `json:"dmi,omitempty"`
}

// DMI is a vendor and product of /sys/class/dmi/id. Both must be the same.
type DMI struct {
	Vendor  string `json:"vendor"`
	Product string `json:"product"`
}

// Storage is a device that state_dir may lie on.
type Storage struct {
	Kind  string `json:"kind"`                   // sd, emmc, nvme, nor, virtio
	Dev   string `json:"dev"`                    // as in /dev
	Label string `json:"by_partlabel,omitempty"` // of the partition for state_dir, where images have one
	Wear  string `json:"wear_node,omitempty"`    // the file that tells its wear; "": it tells nobody
	Note  string `json:"note,omitempty"`
}

// RTC is the clock that goes on without power.
type RTC struct {
	Present string `json:"present"` // fitted, none, probe
	Dev     string `json:"dev,omitempty"`
	Driver  string `json:"driver,omitempty"`
	Battery string `json:"battery,omitempty"` // yes, no, option, probe
}

// Watchdog is what resets the board when its kernel hangs.
type Watchdog struct {
	Dev           string `json:"dev,omitempty"`
	Driver        string `json:"driver,omitempty"`
	MaxS          int    `json:"max_s,omitempty"` // longest timeout, in seconds; 0: not known
	ExternalReset bool   `json:"external_reset,omitempty"`
	ServiceS      int    `json:"service_s"` // WatchdogSec of the service
}

// LEDs are directories in /sys/class/leds.
type LEDs struct {
	Status string `json:"status"`
	Alarm  string `json:"alarm,omitempty"`
}

// Power is what tells of a supply that ends.
type Power struct {
	Supply string `json:"supply_node"` // a directory in /sys/class/power_supply; "": none
	MinPct int    `json:"min_pct,omitempty"`
}

// Updater is how the board's software is renewed.
type Updater struct {
	Backend    string `json:"backend"` // self, rauc
	Slots      int    `json:"slots"`
	Bootloader string `json:"bootloader,omitempty"`
	Tries      int    `json:"tries"`
}

// Memory is a number of bytes or a share of the machine's memory. Zero: none.
type Memory struct {
	Bytes   int64
	Percent int
}

// MarshalText writes it as a profile has it.
func (m Memory) MarshalText() ([]byte, error) {
	if m.Percent > 0 {
		return fmt.Appendf(nil, "%d%%", m.Percent), nil
	}
	return fmt.Appendf(nil, "%dMiB", m.Bytes>>20), nil
}

// Limits are those of the service.
type Limits struct {
	GOMEMLIMIT int64  `json:"GOMEMLIMIT,omitempty"` // in bytes; 0: made from the machine's memory and the cgroup alone
	High       Memory `json:"MemoryHigh"`
	Max        Memory `json:"MemoryMax"`
	Tasks      int    `json:"TasksMax"`
}

// Journal sets the default of journal.linger.
type Journal struct {
	LingerMs int `json:"linger_ms"`
}

// Checkpoint sets the defaults of checkpoint.interval and checkpoint.retained.
type Checkpoint struct {
	IntervalS int    `json:"interval_s,omitempty"`
	LocalKeep int    `json:"local_keep,omitempty"`
	Fsync     string `json:"fsync"` // tested, assumed, doubtful: whether what was flushed is known to survive a power cut
}

// Flash is what the storage may be asked to bear.
type Flash struct {
	Device                 string `json:"device,omitempty"`       // as in /dev; "": the one that state_dir lies on
	TBW                    int64  `json:"tbw,omitempty"`          // bytes that may be written in its life; 0: not known
	DailyBudget            int64  `json:"daily_budget,omitempty"` // bytes; 0: none
	MaxLingerMs            int    `json:"max_linger_ms,omitempty"`
	MaxCheckpointIntervalS int    `json:"max_checkpoint_interval_s,omitempty"`
	Governor               string `json:"governor,omitempty"` // on, off
}

// Source says how parts of the profile are known.
type Source struct {
	Of   []string `json:"of"`  // names of fields
	How  string   `json:"how"` // ran, read, inferred
	From string   `json:"from"`
}
