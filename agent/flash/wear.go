package flash

import (
	"fmt"
	"strconv"
	"strings"
)

// Wear is what a disk says of its age.
type Wear struct {
	Known bool
	// Least and Most of the life are used, 0 to 1: eMMC tells in steps of a tenth.
	Least, Most float64
	Spare       Spare
	Why         string // not known: why
}

// Spare is how many of the reserved blocks are left (pre_eol_info, JESD84-B51 7.4.43).
type Spare uint8

// The levels.
const (
	SpareUnknown Spare = iota
	SpareNormal
	SpareWarning // 80 % are used
	SpareUrgent  // 90 %
)

// exceeded is the value of life_time that means that the life is over.
const exceeded = 0x0b

func (w Wear) String() string {
	switch {
	case !w.Known:
		return "not known: " + w.Why
	case w.Least >= 1:
		return "its estimated life is over"
	}
	return fmt.Sprintf("%.0f to %.0f %% of its life used", 100*w.Least, 100*w.Most)
}

// Wear asks the disks; the most worn one counts.
func (s System) Wear(disks []Disk) Wear {
	all := Wear{Why: "there is no disk"}
	for _, d := range disks {
		w := s.wearOf(d)
		if !w.Known {
			return w
		}
		spare := max(w.Spare, all.Spare)
		if !all.Known || w.Most > all.Most {
			all = w
		}
		all.Spare = spare
	}
	return all
}

func (s System) wearOf(d Disk) Wear {
	switch d.Kind {
	case SD:
		return Wear{Why: "SD cards do not tell it"}
	case NVMe:
		return Wear{Why: "an NVMe disk tells it only to root (nvme smart-log)"}
	case EMMC:
		life := line(s.sys("block", d.Name, "device", "life_time"))
		if life == "" {
			return Wear{Why: "the card tells it from eMMC 5.0 on"}
		}
		w := parseLife(life)
		if n, err := strconv.ParseUint(line(s.sys("block", d.Name, "device", "pre_eol_info")), 0, 8); err == nil && n <= uint64(SpareUrgent) {
			w.Spare = Spare(n)
		}
		return w
	}
	return Wear{Why: fmt.Sprintf("a disk of kind %s does not tell it", d.Kind)}
}

// parseLife reads the two fields of life_time, for memory of types A and B: the worse counts, 0 is not defined.
func parseLife(text string) Wear {
	worst := uint64(0)
	for _, f := range strings.Fields(text) {
		n, err := strconv.ParseUint(f, 0, 8)
		if err != nil || n > exceeded {
			return Wear{Why: fmt.Sprintf("life_time is %q", text)}
		}
		worst = max(worst, n)
	}
	switch worst {
	case 0:
		return Wear{Why: "the card has not defined it"}
	case exceeded:
		return Wear{Known: true, Least: 1, Most: 1}
	}
	return Wear{Known: true, Least: float64(worst-1) / 10, Most: float64(worst) / 10}
}
