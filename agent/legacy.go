package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/weirstream/weir/agent/config"
)

// FromCentral is the place that `weir restore --from` calls central.
const FromCentral = "central"

// OpenLegacy gives what a device is restored from: the central store of the config, or savepoint files in a directory.
func OpenLegacy(cfg *config.Config, from string) (Legacy, error) {
	if from == FromCentral {
		return nil, errors.New("the config has no central store")
	}
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is neither %q nor a directory", from, FromCentral)
	}
	return Directory(from), nil
}
