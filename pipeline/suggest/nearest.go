// Package suggest finds the name that a misspelt one was meant to be, and what to do about a certificate. Errors of expressions, plans, configs and
// connections use it.
package suggest

import (
	"strings"
	"unicode/utf8"
)

// nameBytesMax bounds the work: longer names are not typing errors.
const nameBytesMax = 128

// Nearest gives the candidate with the fewest edits (insert, delete, replace, swap neighbours; case counts as half a
// thing: a name that differs in case alone is nearest of all) from name, or "" when none is near: more than a third of
// the longer name's letters, at least one, differ. Of equally near ones the first in the order given wins.
func Nearest(name string, candidates []string) string {
	best, bestEdits := "", -1
	for _, c := range candidates {
		if len(c) > nameBytesMax || len(name) > nameBytesMax {
			continue
		}
		if strings.EqualFold(name, c) {
			return c
		}
		edits := distance(strings.ToLower(name), strings.ToLower(c))
		allowed := max(1, max(utf8.RuneCountInString(name), utf8.RuneCountInString(c))/3)
		if edits <= allowed && (bestEdits < 0 || edits < bestEdits) {
			best, bestEdits = c, edits
		}
	}
	return best
}

// distance is the optimal string alignment distance (Levenshtein plus swaps of neighbours).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
