//go:build !nocentral

package main

import (
	"slices"
	"testing"
	"time"
)

func TestBytesLine(t *testing.T) {
	clock := time.Unix(1000, 0)
	var lines []string
	told, stop := bytesLine(time.Second, func() time.Time { return clock }, func(l string) { lines = append(lines, l) })
	for done := range uint64(11) {
		told(done*10, 100)
		clock = clock.Add(300 * time.Millisecond)
	}
	stop()
	stop()
	want := []string{"fetched 0 of 100 bytes, 0 %", "fetched 40 of 100 bytes, 40 %", "fetched 80 of 100 bytes, 80 %", "fetched 100 of 100 bytes, 100 %", ""}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}
