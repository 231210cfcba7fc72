package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weirstream/weir/agent/config"
)

// Legacy is where a replacement finds what the device before it has left.
type Legacy interface {
	// Look tells whether there is anything of a gateway.
	Look(ctx context.Context, gateway string) error
	// Leave puts a savepoint of each pipeline of a gateway into a directory, each whole or not at all, and tells of each. A pipeline whose state cannot be had has an Err. Called again
	// it replaces them by what is newest then; pieces that it keeps for that lie in directories that end with offsite.PartsSuffix.
	Leave(ctx context.Context, gateway, into string) ([]Left, error)
}

// Left is what is left of a pipeline.
type Left struct {
	Pipeline string // its name in the config of the device before
	File     string // of a savepoint
	Note     string // what the operator should know of it
	Err      error
}

// FromCentral is the place that `weir restore --from` calls central.
const FromCentral = "central"

// Trusted says whom a restore believes in what it reads of a central store.
type Trusted struct {
	Keys     []string // public keys whose signatures count
	Any      bool     // or whoever may write to the store
	Identity string   // file of the private key that opens encrypted pieces; "" none
	// Told, if not nil, hears how many bytes of how many were read of an upload.
	Told func(done, all uint64)
}

// OpenLegacy gives what a device is restored from: the central store of the config, or savepoint files in a directory.
func OpenLegacy(cfg *config.Config, from string, t Trusted) (Legacy, error) {
	if from != FromCentral {
		if info, err := os.Stat(from); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s is neither %q nor a directory", from, FromCentral)
		}
		if len(t.Keys) > 0 || t.Any || t.Identity != "" {
			return nil, errors.New("--key, --any-key and --identity are for a central store")
		}
		return Directory(from), nil
	}
	return openUploads(cfg, t)
}
