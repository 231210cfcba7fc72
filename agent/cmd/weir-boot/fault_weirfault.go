//go:build weirfault

package main

import (
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/boot"
)

// planted: WEIR_BOOT_ROOT=DIR has all places lie below DIR, but for state_dir, and belong to whoever runs it: a machine has many gateways then, and nobody need be root. It is no fault.
func planted(p *boot.Places) {
	root := os.Getenv("WEIR_BOOT_ROOT")
	if root == "" {
		return
	}
	for _, place := range []*string{&p.Dir, &p.Run, &p.Counted, &p.Factory, &p.Provisioned} {
		*place = filepath.Join(root, *place)
	}
	p.Owner = os.Getuid()
}
