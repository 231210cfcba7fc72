package upgrade

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirstream/weir/fleet/document"
)

// Broken is pure: where a program is not what its manifest promises of it. promised is what the gates of the beginning have judged (Compatible), is what the program's own self-test says, before anything is stopped. A manifest
// may promise less than the program reads; what is written, and what steps do, has to be said as it is, and nothing may be left out: going back rests on it.
func Broken(promised, is document.Compat) (why []string) {
	why = append(brokenVersions("", promised.Formats, is.Formats), brokenVersions("state ", promised.State, is.State)...)
	for _, step := range slices.Sorted(maps.Keys(union(promised.Behaviours, is.Behaviours))) {
		if p, does := promised.Behaviours[step], is.Behaviours[step]; p != does {
			why = append(why, fmt.Sprintf("its release promises behaviour %d of %s, and the program has %d", p, step, does))
		}
	}
	return why
}

func brokenVersions(of string, promised, is map[string]document.Versions) (why []string) {
	for _, name := range slices.Sorted(maps.Keys(union(promised, is))) {
		p, said := promised[name]
		have, known := is[name]
		switch {
		case !known:
			why = append(why, fmt.Sprintf("its release promises %s%s, which the program does not know", of, name))
		case !said:
			why = append(why, fmt.Sprintf("its release does not tell of %s%s, which the program writes at version %d", of, name, have.Writes))
		case p.Least < have.Least || p.Most > have.Most:
			why = append(why, fmt.Sprintf("its release promises that it reads %s%s from version %d to %d, and the program reads %d to %d", of, name, p.Least, p.Most, have.Least, have.Most))
		case p.Writes != have.Writes:
			why = append(why, fmt.Sprintf("its release promises that it writes %s%s version %d, and the program writes %d", of, name, p.Writes, have.Writes))
		}
	}
	return why
}

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return all
}
