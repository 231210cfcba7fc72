package config

import (
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// Central is where checkpoints are kept off this device.
type Central struct {
	Pos             plan.Pos
	URL             plan.Text // "": nowhere
	Endpoint        plan.Text
	Region          string
	CredentialsFile string
	CAFile          string
	Interval        time.Duration
	ShipJournal     time.Duration // 0: records are not shipped
	Bandwidth       int64         // bytes per second; 0: no limit
	Link            plan.Text
	RebaseRatio     float64
	Retained        int
	Timeout         time.Duration
	FencePoll       time.Duration
	Recipients      []plan.Text
	KeyFile         string

	// Of URL: either a directory, or bucket and prefix.
	Directory, Bucket, Prefix string
}
