package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// GatewayFromMachineID makes the default name of a gateway from the text of /etc/machine-id: gw- and 12 hex digits. The
// id itself is confidential (machine-id(5)): it goes through a keyed hash and cannot be got back from the name.
func GatewayFromMachineID(text string) (string, error) {
	id := strings.TrimSpace(text)
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 || strings.Trim(id, "0") == "" {
		return "", fmt.Errorf("derive gateway name: /etc/machine-id holds no machine id; set gateway in the config")
	}
	mac := hmac.New(sha256.New, []byte(id))
	mac.Write([]byte("weir gateway name"))
	return "gw-" + hex.EncodeToString(mac.Sum(nil))[:12], nil
}
