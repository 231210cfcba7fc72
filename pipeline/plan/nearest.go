package plan

import (
	"slices"
	"strings"
)

// Nearest gives the candidate that name was most probably meant to be, "" when none is near: at most a third of its
// characters differ (a swap of neighbours counts as one), or one contains the other.
func Nearest(name string, candidates []string) string {
	folded := strings.ToLower(name)
	best, bestDistance := "", max(1, len([]rune(name))/3)+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if c == "" || c == name {
			continue
		}
		if d := distance([]rune(folded), []rune(strings.ToLower(c))); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best != "" || len(name) < 3 {
		return best
	}
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		low := strings.ToLower(c)
		if len(c) >= 3 && (strings.Contains(low, folded) || strings.Contains(folded, low)) {
			return c
		}
	}
	return ""
}

// distanceRunesMax bounds the work for hostile names.
const distanceRunesMax = 256

// distance is the optimal string alignment distance.
func distance(a, b []rune) int {
	if len(a) > distanceRunesMax || len(b) > distanceRunesMax {
		return distanceRunesMax
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
