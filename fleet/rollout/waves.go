package rollout

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/fleet/document"
)

// ParseWaves reads "1%:24h,10%:24h,100%": share and how long the wave runs at least, each share above the one before. Shares have one decimal at most. The last wave needs no time.
func ParseWaves(text string) (waves []document.Wave, err error) {
	for i, part := range strings.Split(text, ",") {
		share, soak, timed := strings.Cut(strings.TrimSpace(part), ":")
		w := document.Wave{}
		if w.Permille, err = parseShare(share); err != nil {
			return nil, fmt.Errorf("wave %d, %q: %w", i+1, part, err)
		}
		if i > 0 && w.Permille <= waves[i-1].Permille {
			return nil, fmt.Errorf("wave %d, %q: want more than the wave before, %s", i+1, part, Share(waves[i-1].Permille))
		}
		if timed {
			d, err := time.ParseDuration(soak)
			if err != nil || d < 0 || d%time.Millisecond != 0 { // below a millisecond it would be no time at all
				return nil, fmt.Errorf("wave %d, %q: want a time in whole milliseconds behind the colon, as 24h or 90m", i+1, part)
			}
			w.SoakMs = d.Milliseconds()
		}
		waves = append(waves, w)
	}
	return waves, nil
}

func parseShare(text string) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	whole, tenth, cut := strings.Cut(number, ".")
	n, err := strconv.ParseUint(whole, 10, 16)
	if err == nil && cut {
		var t uint64
		if t, err = strconv.ParseUint(tenth, 10, 16); len(tenth) != 1 {
			err = strconv.ErrSyntax
		}
		n = n*10 + t
	} else {
		n *= 10
	}
	if err != nil || !percent || n < 1 || n > 1000 {
		return 0, fmt.Errorf("want a share of 0.1%% to 100%%, with one decimal at most")
	}
	return int(n), nil
}

// Share writes thousandths as ParseWaves reads them.
func Share(permille int) string {
	if permille%10 == 0 {
		return fmt.Sprintf("%d%%", permille/10)
	}
	return fmt.Sprintf("%d.%d%%", permille/10, permille%10)
}

// FormatWaves writes what ParseWaves reads.
func FormatWaves(waves []document.Wave) string {
	var parts []string
	for _, w := range waves {
		p := Share(w.Permille)
		if w.SoakMs > 0 {
			p += ":" + (time.Duration(w.SoakMs) * time.Millisecond).String()
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, ",")
}

// Planned is a wave, and the gateways that it brings in, of those that are known.
type Planned struct {
	Wave     int           `json:"wave"` // from 1
	Permille int           `json:"permille"`
	Soak     time.Duration `json:"soak_ns"`
	New      int           `json:"new"`   // gateways that this wave adds
	Total    int           `json:"total"` // with those of the waves before
}

// Plan tells how many gateways each wave of a roll-out brings in.
func Plan(r *document.Rollout, known map[string]Gateway) (plan []Planned) {
	var at [1000]int
	for name, g := range known {
		if r.Audience.Includes(name, g.Board) {
			at[document.Cohort(r.ID, name)]++
		}
	}
	waves := r.Waves
	if len(waves) == 0 {
		waves = []document.Wave{{Permille: r.Permille}}
	}
	total, from := 0, 0
	for i, w := range waves {
		p := Planned{Wave: i + 1, Permille: w.Permille, Soak: time.Duration(w.SoakMs) * time.Millisecond}
		for ; from < w.Permille; from++ {
			p.New += at[from]
		}
		total += p.New
		p.Total = total
		plan = append(plan, p)
	}
	return plan
}
