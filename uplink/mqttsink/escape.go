package mqttsink

import (
	"encoding/json"
	"strings"
)

// appendJSON appends a text as a JSON string.
func appendJSON(dst, text []byte) []byte {
	b, err := json.Marshal(strings.ToValidUTF8(string(text), "\uFFFD"))
	if err != nil {
		panic("BUG: a text cannot be encoded: " + err.Error())
	}
	return append(dst, b...)
}
