//go:build !nocentral

package config

import "github.com/weirstream/weir/uplink/central"

// centralBuilt and encryptBuilt tell what this binary has. Tests change them.
var centralBuilt, encryptBuilt = true, central.EncryptBuilt

func checkRecipient(s string) string {
	if err := central.CheckRecipient(s); err != nil {
		return "this is no public key of age"
	}
	return ""
}
