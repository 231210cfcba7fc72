package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Power is what feeds the gateway, as Linux tells (Documentation/ABI/testing/sysfs-class-power).
type Power struct {
	Battery bool
	Percent int  // of the fullest battery that feeds the system
	Mains   bool // a supply that is no battery is online
}

// ReadPower reads a directory like /sys/class/power_supply. Supplies of devices (a mouse, a UPS's probe) have scope Device and count nothing; what a supply does not tell counts as empty. Without
// the directory there is no battery.
func ReadPower(sys fs.FS) (p Power, err error) {
	list, err := fs.ReadDir(sys, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("list the power supplies: %w", err)
	}
	for _, e := range list {
		read := func(name string) string {
			b, err := fs.ReadFile(sys, e.Name()+"/"+name)
			if err != nil {
				return "" // a supply may go away, or not tell
			}
			return strings.TrimSpace(string(b))
		}
		if read("scope") == "Device" {
			continue
		}
		switch kind := read("type"); {
		case kind == "Battery":
			if read("present") == "0" {
				continue
			}
			p.Battery = true
			if n, err := strconv.Atoi(read("capacity")); err == nil {
				p.Percent = max(p.Percent, min(n, 100))
			}
		case kind != "" && read("online") != "0" && read("online") != "":
			p.Mains = true
		}
	}
	return p, nil
}

// Lacks tells why there is too little, "" when there is enough: a cut harms no upgrade, but a first start on an empty battery fails.
func (p Power) Lacks(percent int) string {
	if !p.Battery || p.Mains || p.Percent >= percent {
		return ""
	}
	return fmt.Sprintf("the battery is at %d %%, and %d %% are needed without mains", p.Percent, percent)
}
