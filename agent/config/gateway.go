package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// serialKind names hardware.
var serialKind = stringKind{textKind{what: "a name of this hardware", pattern: "^[A-Za-z0-9._:-]{1,64}$", allowed: "1 to 64 letters, digits and . _ : -", check: checkSerial}}

func checkSerial(b string) string {
	if len(b) == 0 || len(b) > 64 || strings.Trim(b, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") != "" {
		return "it is empty, too long, or holds other characters"
	}
	return ""
}

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
