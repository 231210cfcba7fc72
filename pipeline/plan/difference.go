package plan

import (
	"slices"
	"strings"
)

// differencesMax are told; who changed more knows that much has changed.
const differencesMax = 4

// Difference tells in what the meanings of two plans differ: sources, steps and sinks that came, went or changed, with the settings. It is for people.
func Difference(before, now string) (list []string) {
	had, has := chapters(before), chapters(now)
	find := func(in []chapter, name string) int {
		return slices.IndexFunc(in, func(c chapter) bool { return c.name == name })
	}
	for _, c := range had {
		if find(has, c.name) < 0 {
			list = append(list, c.name+" is gone")
		}
	}
	for _, c := range has {
		switch at := find(had, c.name); {
		case at < 0:
			list = append(list, c.name+" is new")
		case had[at].text != c.text:
			was, is := apart(had[at].text, c.text)
			list = append(list, c.name+" has "+is+", had "+was)
		}
	}
	if len(list) == 0 && before != now {
		list = append(list, "the order of its parts")
	}
	if len(list) > differencesMax {
		list = append(list[:differencesMax], "more")
	}
	return list
}

// chapter is what a meaning tells of one source, step or sink.
type chapter struct{ name, text string }

func chapters(meaning string) (all []chapter) {
	for line := range strings.Lines(meaning) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, " ") && len(all) > 0 {
			all[len(all)-1].text += line
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		name, text := rest, ""
		if end := strings.Index(rest[min(1, len(rest)):], `"`); strings.HasPrefix(rest, `"`) && end >= 0 {
			name, text = rest[:end+2], rest[end+2:]
		}
		all = append(all, chapter{kind + " " + name, text})
	}
	return all
}

// apart cuts away the words at both ends that two texts have in common, but for the one before the first difference: it is the setting's name.
func apart(a, b string) (string, string) {
	x, y := strings.Fields(a), strings.Fields(b)
	first := 0
	for first < min(len(x), len(y)) && x[first] == y[first] {
		first++
	}
	last := 0
	for last < min(len(x), len(y))-first && x[len(x)-1-last] == y[len(y)-1-last] {
		last++
	}
	first = max(0, first-1)
	return quoted(x[first : len(x)-last]), quoted(y[first : len(y)-last])
}

func quoted(words []string) string { return "«" + strings.Join(words, " ") + "»" }
