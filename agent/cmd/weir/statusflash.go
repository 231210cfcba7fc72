package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/flash"
)

func printFlash(t io.Writer, f *api.FlashStatus) {
	disk := cmp.Or(f.Disk, "disk not known: "+f.NotKnown)
	if f.Kind != "" {
		disk += " (" + f.Kind + ")"
	}
	if len(f.Through) > 0 {
		disk += " through " + strings.Join(f.Through, ", ")
	}
	fmt.Fprintf(t, "flash\t%s\twear %s\t%s\n", disk, f.Wear, f.Error)
	if f.Disk == "" {
		return
	}
	own := "weir's part is not counted by this kernel"
	if f.OwnKnown {
		own = "by weir " + flash.Bytes(float64(f.DayOwn))
	}
	fmt.Fprintf(t, "  written in %s of today\t%s\t%s\n", seconds(f.DaySeconds), flash.Bytes(float64(f.DayBytes)), own)
	per, budget, years := "not known before an hour", "none", ""
	if f.PerDay >= 0 {
		per = flash.Bytes(f.PerDay) + " a day"
	}
	if f.Budget > 0 {
		budget = flash.Bytes(f.Budget) + " a day"
	}
	if f.Years >= 0 {
		years = fmt.Sprintf("%.1f years left, wanted %d", f.Years, f.YearsWanted)
	}
	fmt.Fprintf(t, "  rate\t%s\tbudget %s\t%s\n", per, budget, years)
	if f.Linger.Stretched() || f.Interval.Stretched() {
		fmt.Fprintf(t, "  stretched\t%s because %s\n", strings.Join(stretched(f), ", "), f.Why)
	}
	if f.Short != "" {
		fmt.Fprintf(t, "  budget\twill be passed: %s\n", f.Short)
	}
}

func stretched(f *api.FlashStatus) (list []string) {
	for _, k := range []struct {
		name string
		p    api.Paced
	}{{"linger", f.Linger}, {"checkpoint interval", f.Interval}} {
		if k.p.Stretched() {
			list = append(list, fmt.Sprintf("%s %s→%s", k.name, seconds(k.p.Base), seconds(k.p.Now)))
		}
	}
	return list
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Minute:
		d = d.Round(time.Minute)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	}
	return config.FormatDuration(d)
}
