package agent

import "strconv"

// Set by the linker (Makefile): the version of the build and its time in Unix seconds, below which no clock is right.
var (
	version   = "devel"
	buildTime = "0"
)

// Version is the version of the build.
func Version() string { return version }

// buildTimeMs is the time of the build in Unix ms, 0 when the build did not say.
func buildTimeMs() int64 {
	s, err := strconv.ParseInt(buildTime, 10, 64)
	if err != nil {
		return 0
	}
	return s * 1000
}
