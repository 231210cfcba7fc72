package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/fleet/document"
)

func TestCompatCommand(t *testing.T) {
	for _, args := range [][]string{{"compat", "--json"}, {"compat", "-o", "json"}, {"compat"}} {
		var out bytes.Buffer
		c := root()
		c.SetArgs(args)
		c.SetOut(&out)
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
		var is document.Compat
		if len(args) > 1 {
			if err := json.Unmarshal(out.Bytes(), &is); err != nil || !reflect.DeepEqual(is, compat.Current()) {
				t.Errorf("%v: %v: %s", args, err, out.Bytes())
			}
			continue
		}
		for _, want := range []string{"journal entries", "state ops.dedup", "behaviour of window"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
	}
}
