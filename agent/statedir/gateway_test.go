package statedir

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/weirstream/weir/store/disk"
)

// Two gateways without a name in their configs must not share a client id and stream names.
func TestGatewayNameIsNeverEmpty(t *testing.T) {
	machine := func(id string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(id), nil }
	}
	one, err1 := GatewayName("", "", machine("0123456789abcdef0123456789abcdef\n"))
	two, err2 := GatewayName("", "", machine("fedcba9876543210fedcba9876543210\n"))
	if err1 != nil || err2 != nil || one == two || !strings.HasPrefix(one, "gw-") {
		t.Errorf("%q %v, %q %v", one, err1, two, err2)
	}
	if name, err := GatewayName("", "gw-kept", machine("fedcba9876543210fedcba9876543210")); err != nil || name != "gw-kept" {
		t.Errorf("a changed machine id renames the streams: %q %v", name, err)
	}
	if name, err := GatewayName("plant-7", "gw-kept", machine("")); err != nil || name != "plant-7" {
		t.Errorf("%q %v", name, err)
	}
	missing := func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	if name, err := GatewayName("", "", missing); err == nil || !strings.Contains(err.Error(), "set gateway in the config") {
		t.Errorf("%q %v", name, err)
	}
}

func TestRegistryRemembersTheGateway(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenRegistry(disk.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	r.SetGateway("gw-1")
	if err := r.Adopt(nil); err != nil {
		t.Fatal(err)
	}
	if r, err = OpenRegistry(disk.OS, dir); err != nil || r.Gateway != "gw-1" {
		t.Errorf("%v %+v", err, r)
	}
}
