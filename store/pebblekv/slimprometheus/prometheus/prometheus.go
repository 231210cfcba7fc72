// Package prometheus stands in for github.com/prometheus/client_golang/prometheus, of which Pebble uses its histograms: go.mod replaces that module by this one.
// The original brings a protobuf runtime, the descriptions of its messages and readers of /proc, which work at each start and whose tables stay in memory: 2 MB of
// an arm64 binary, and half a MiB of the heap of an agent that has no Pebble open. weir reads none of these histograms, so that nothing is counted.
package prometheus

import "math"

// Histogram takes observations.
type Histogram interface{ Observe(float64) }

// HistogramOpts are those that Pebble sets.
type HistogramOpts struct{ Buckets []float64 }

// uncounted is a histogram that nobody reads.
type uncounted struct{}

func (uncounted) Observe(float64) {}

// NewHistogram gives one that counts nothing.
func NewHistogram(HistogramOpts) Histogram { return uncounted{} }

// LinearBuckets gives count upper bounds from start on, width apart.
func LinearBuckets(start, width float64, count int) []float64 {
	b := make([]float64, count)
	for i := range b {
		b[i] = start + float64(float64(i)*width)
	}
	return b
}

// ExponentialBucketsRange gives count upper bounds from least to most, each the same multiple of the one before.
func ExponentialBucketsRange(least, most float64, count int) []float64 {
	b := make([]float64, count)
	growth := math.Pow(most/least, 1/float64(count-1))
	for i := range b {
		b[i] = least * math.Pow(growth, float64(i))
	}
	return b
}
