package statedir

import (
	"fmt"
	"os"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/store/disk"
)

// GatewayOf is the name of the gateway that a config runs: see GatewayName. Nothing is written.
func GatewayOf(cfg *config.Config) (string, error) {
	r, err := OpenRegistry(disk.OS, cfg.StateDir.Value)
	if err != nil {
		return "", err
	}
	return GatewayName(cfg.Gateway.Value, r.Gateway, os.ReadFile)
}

// GatewayName is the name of this gateway, for good: streams and the MQTT client id are made from it. The config says it; else it is what
// state_dir remembers, so that a changed machine id renames no stream; else it comes from the machine id.
func GatewayName(configured, remembered string, read func(string) ([]byte, error)) (string, error) {
	switch {
	case configured != "":
		return configured, nil
	case remembered != "":
		return remembered, nil
	}
	id, err := read("/etc/machine-id")
	if err != nil {
		return "", fmt.Errorf("derive gateway name: %w; set gateway in the config", err)
	}
	return config.GatewayFromMachineID(string(id))
}
