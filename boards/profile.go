package boards

// Profile is what is known of a board. What is empty is not known, or does not exist there: docs/boards.md tells for each field. Sources says where it is from.
type Profile struct {
	ID, Name string
	Detect   Detect
	Arch     string // of Go: arm64, arm, amd64
	GOARM64  string // architecture level to build for; one of the two at most
	GOARM    string
	CPUs     int   // 0: any
	RAMMB    []int // sizes that are sold; the smallest and the largest
	Storage  []*Storage
	RTC      RTC
	Watchdog Watchdog
	LEDs     LEDs
	Power    Power
	Thermal  string // thermal zone, a directory in /sys
	Updater  Updater
	Limits   Limits
	Journal  Journal
	// Checkpoint and Journal set defaults of the config; 0 and "" leave those that are built in.
	Checkpoint Checkpoint
	Flash      Flash
	Quirks     []string // one sentence each
	Tested     string   // untested, community, lab, ci-qemu
	Sources    []*Source
}

// Detect is how the board is known.
type Detect struct {
	// Compatible are strings of the root node of a device tree, each of which means this board.
	Compatible []string
	// DMI are what firmware without a device tree says.
	DMI []*DMI
}

// DMI is a vendor and product of /sys/class/dmi/id. Both must be the same.
type DMI struct{ Vendor, Product string }

// Storage is a device that state_dir may lie on.
type Storage struct {
	Kind  string // sd, emmc, nvme, nor, virtio
	Dev   string // as in /dev
	Label string // of the partition for state_dir, where images have one
	Wear  string // the file that tells its wear; "": it tells nobody
	Note  string
}

// RTC is the clock that goes on without power.
type RTC struct {
	Present string // fitted, none, probe
	Dev     string
	Driver  string
	Battery string // yes, no, option, probe
}

// Watchdog is what resets the board when its kernel hangs.
type Watchdog struct {
	Dev           string
	Driver        string
	MaxS          int // longest timeout, in seconds; 0: not known
	ExternalReset bool
	ServiceS      int // WatchdogSec of the service
}

// LEDs are directories in /sys/class/leds.
type LEDs struct{ Status, Alarm string }

// Power is what tells of a supply that ends.
type Power struct {
	Supply string // a directory in /sys/class/power_supply; "": none
	MinPct int
}

// Updater is how the board's software is renewed.
type Updater struct {
	Backend    string // self, rauc
	Slots      int
	Bootloader string
	Tries      int
}

// Memory is a number of bytes or a share of the machine's memory. Zero: none.
type Memory struct {
	Bytes   int64
	Percent int
}

// Limits are those of the service.
type Limits struct {
	GOMEMLIMIT int64 // in bytes; 0: made from the machine's memory and the cgroup alone
	High, Max  Memory
	Tasks      int
}

// Journal sets the default of journal.linger.
type Journal struct{ LingerMs int }

// Checkpoint sets the defaults of checkpoint.interval and checkpoint.retained.
type Checkpoint struct {
	IntervalS int
	LocalKeep int
	Fsync     string // tested, assumed, doubtful: whether what was flushed is known to survive a power cut
}

// Flash is what the storage may be asked to bear.
type Flash struct {
	Device                 string // as in /dev; "": the one that state_dir lies on
	TBW                    int64  // bytes that may be written in its life; 0: not known
	DailyBudget            int64  // bytes; 0: none
	MaxLingerMs            int
	MaxCheckpointIntervalS int
	Governor               string // on, off
}

// Source says how parts of the profile are known.
type Source struct {
	Of   []string // names of fields
	How  string   // ran, read, inferred
	From string
}
