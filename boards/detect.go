package boards

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Facts are what a machine says of itself. What could not be read is empty.
type Facts struct {
	Compatible []string `json:"compatible,omitempty"` // of the device tree's root, the most specific first
	Model      string   `json:"model,omitempty"`
	Vendor     string   `json:"dmi_vendor,omitempty"`
	Product    string   `json:"dmi_product,omitempty"`
	Machine    string   `json:"machine,omitempty"`     // of uname: aarch64
	RAM        int64    `json:"ram_bytes,omitempty"`   // MemTotal
	CgroupHigh int64    `json:"memory_high,omitempty"` // bytes; 0: no limit
	CgroupMax  int64    `json:"memory_max,omitempty"`  // bytes; 0: no limit
}

// Known is how a profile is known. The index of all of them is made from the files (agent/config, TestIndexIsOfTheFiles): to read twelve files at every start
// would cost a slow gateway a fifth of a second.
type Known struct {
	ID, Arch string
	Detect   Detect
}

// Index gives what all profiles are known by.
func Index() []Known { return index }

// Choice is the profile that a machine was found to be, and why.
type Choice struct {
	ID  string `json:"board"`
	Why string `json:"why"`
	// Others are profiles that match as well, and why they were not taken.
	Others []string `json:"others,omitempty"`
}

// match is a profile that a machine may be. Lower rank is more specific: the place in the device tree's list, which goes from the board to its processor; behind
// all of those DMI.
type match struct {
	id   string
	rank int
	hits int // how many of the profile's strings the machine has
	what string
}

const rankDMI = 1 << 16

// Arch gives Go's name for what uname says; "" when weir is not built for it.
func Arch(machine string) string {
	switch {
	case machine == "aarch64" || machine == "arm64":
		return "arm64"
	case strings.HasPrefix(machine, "armv7") || strings.HasPrefix(machine, "armv8"): // armv8l: a 32-bit process on a processor of 64
		return "arm"
	case machine == "x86_64" || machine == "amd64":
		return "amd64"
	}
	return ""
}

// Pick is pure: the profile of which the machine says the most specific name, else the generic one of its processor. No profile at all is "".
func Pick(profiles []Known, f Facts) Choice { return pick(profiles, f, moreSpecific) }

func moreSpecific(a, b match) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.hits, a.hits), cmp.Compare(a.id, b.id))
}

func pick(profiles []Known, f Facts, order func(a, b match) int) Choice {
	var found []match
	for i := range profiles {
		if m, ok := profiles[i].match(f); ok {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return fallback(profiles, f)
	}
	sort.Slice(found, func(i, j int) bool { return order(found[i], found[j]) < 0 })
	best := found[0]
	c := Choice{ID: best.id, Why: best.what}
	for _, m := range found[1:] {
		why := "which is less specific"
		switch {
		case m.rank == best.rank && m.hits < best.hits:
			why = fmt.Sprintf("the same string, but fewer of its names are there (%d, not %d)", m.hits, best.hits)
		case m.rank == best.rank:
			why = "a tie, which the order of the alphabet decides"
		}
		c.Others = append(c.Others, fmt.Sprintf("%s: %s; %s", m.id, m.what, why))
	}
	return c
}

func (p *Known) match(f Facts) (m match, ok bool) {
	m.id, m.rank = p.ID, rankDMI+1
	for i, name := range f.Compatible {
		if slices.Contains(p.Detect.Compatible, name) {
			m.hits++
			if i < m.rank {
				m.rank, m.what = i, fmt.Sprintf("the device tree says %q", name)
			}
		}
	}
	if m.hits > 0 {
		return m, true
	}
	for _, d := range p.Detect.DMI {
		// Boards of several processors give the same name: only that of the machine's counts.
		if d.Vendor == f.Vendor && d.Product == f.Product && Arch(f.Machine) == p.Arch {
			return match{p.ID, rankDMI, 1, fmt.Sprintf("the firmware (DMI) says %q of %q", d.Product, d.Vendor)}, true
		}
	}
	return m, false
}

// fallback is the profile for a processor.
func fallback(profiles []Known, f Facts) Choice {
	says := "there is no device tree, and DMI names no board that has a profile"
	if len(f.Compatible) > 0 {
		says = fmt.Sprintf("no profile has a name that the device tree says (%s)", strings.Join(f.Compatible, ", "))
	}
	arch := Arch(f.Machine)
	for _, p := range profiles {
		if Generic(p.ID) && p.Arch == arch {
			return Choice{ID: p.ID, Why: fmt.Sprintf("%s; the processor is %s", says, f.Machine)}
		}
	}
	return Choice{Why: fmt.Sprintf("%s, and no profile is for the processor %q", says, f.Machine)}
}
