// Package prometheus stands in for github.com/prometheus/client_golang/prometheus: go.mod replaces that module by this one. Pebble makes histograms of
// it, of how long a sync of its log and an access of its shared cache last, and leaves it to the program to read them. pebblekv has neither log nor
// shared cache, and its metrics are those of metrics.go. The original brings the runtime of protobuf, a registry and collectors.
package prometheus

// Histogram takes values. Nothing is kept of them.
type Histogram interface {
	Observe(float64)
}

// HistogramOpts says where the original's buckets end.
type HistogramOpts struct {
	Buckets []float64
}

// NewHistogram gives one that keeps nothing.
func NewHistogram(HistogramOpts) Histogram { return none{} }

type none struct{}

func (none) Observe(float64) {}

// LinearBuckets and ExponentialBucketsRange give none: where buckets end means nothing to a histogram that keeps nothing.
func LinearBuckets(_, _ float64, _ int) []float64           { return nil }
func ExponentialBucketsRange(_, _ float64, _ int) []float64 { return nil }
