// Package credentials reads what sinks prove themselves with. Files are read anew at each use: a renewed one counts at the next
// connection, and nothing secret is in a config or an error.
package credentials

import (
	"fmt"
	"os"
	"strings"
)

// Secret gives the text of a file with one secret, without blanks around it. An empty one is an error: it would be sent as none.
func Secret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("read secret: %s is empty", file)
	}
	return text, nil
}
