package config

import (
	"encoding/json"
	"fmt"
)

// Schema is the JSON Schema (draft 2020-12) of a config file, indented. It is made from the same table as the reader; what
// needs more than one setting to judge (references, expressions, security) only the reader finds.
func Schema() []byte {
	s := top.section.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://github.com/weirstream/weir/schema/weir.json"
	s["title"] = "weir configuration"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("BUG: schema: %v", err)) // texts and numbers only
	}
	return append(b, '\n')
}
