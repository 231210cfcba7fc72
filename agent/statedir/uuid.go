package statedir

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/weirstream/weir/snapshot"
)

// ParseUUID reads the text form of a UUID, as the registry has it.
func ParseUUID(s string) (id snapshot.UUID, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%q is not a UUID", s)
	}
	copy(id[:], b)
	return id, nil
}
