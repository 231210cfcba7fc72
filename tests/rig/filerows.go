package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// FileRows reads what a file sink wrote: each sequence once, without a hole, from first on; 0: from that of the first row. What opens a file is no row.
func FileRows(name string, first uint64) (rows []json.RawMessage, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	next := first
	for line := range bytes.Lines(b) {
		var l struct {
			Seq  uint64
			Data json.RawMessage
			Open *string
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("%s: line %.80q: %w", name, line, err)
		}
		if l.Open != nil {
			continue
		}
		if next == 0 {
			next = l.Seq
		}
		if l.Seq != next || l.Data == nil {
			return nil, fmt.Errorf("%s: line %s where sequence %d is next", name, bytes.TrimSpace(line), next)
		}
		next++
		rows = append(rows, l.Data)
	}
	return rows, nil
}
