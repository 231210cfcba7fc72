package boards

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a line of testdata/compatible.txt.
type machine struct{ want, uname, from, names string }

func machines(t *testing.T) (list []machine) {
	t.Helper()
	b, err := os.ReadFile("testdata/compatible.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, "|"); !strings.HasPrefix(line, "#") {
			if len(f) != 4 {
				t.Fatalf("%q", line)
			}
			list = append(list, machine{strings.TrimSpace(f[0]), strings.TrimSpace(f[1]), strings.TrimSpace(f[2]), strings.TrimSpace(f[3])})
		}
	}
	return list
}

// rootOf makes a machine's /proc and /sys. Names ending in / are left out.
func rootOf(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestRealMachines: each is found to be what it is, from files as its kernel has them.
func TestRealMachines(t *testing.T) {
	found := map[string]bool{}
	for _, m := range machines(t) {
		for _, dir := range treeDirs {
			names := strings.Fields(m.names)
			root := rootOf(t, map[string]string{dir + "/compatible": strings.Join(names, "\x00") + "\x00", dir + "/model": "Some board\x00", "proc/sys/kernel/arch": m.uname + "\n"})
			f := Read(root)
			if !slices.Equal(f.Compatible, names) || f.Model != "Some board" || f.Machine != m.uname {
				t.Fatalf("%s: read %+v", m.from, f)
			}
			c := Pick(Index(), f)
			if c.ID != m.want {
				t.Errorf("%s: %+v, want %s", m.from, c, m.want)
			}
			if !Generic(m.want) && !strings.Contains(c.Why, "device tree says \"") || Generic(m.want) && !strings.Contains(c.Why, names[0]) {
				t.Errorf("%s: the choice is not explained: %s", m.from, c.Why)
			}
			found[c.ID] = true
		}
	}
	for _, id := range IDs() {
		if id != "generic-amd64" && !found[id] {
			t.Errorf("no machine is a %s", id)
		}
	}
}

// TestMachinesWithoutATree: firmware that says DMI names, and machines that say nothing.
func TestMachinesWithoutATree(t *testing.T) {
	for want, f := range map[string]Facts{
		"qemu-virt":     {Machine: "aarch64", Vendor: "QEMU", Product: "KVM Virtual Machine"},
		"generic-amd64": {Machine: "x86_64", Vendor: "QEMU", Product: "Standard PC (Q35 + ICH9, 2009)"},
		"generic-armv7": {Machine: "armv8l"},
		"":              {Machine: "riscv64", Vendor: "QEMU", Product: "QEMU Virtual Machine"},
	} {
		if c := Pick(Index(), f); c.ID != want || c.Why == "" {
			t.Errorf("%+v: %+v, want %q", f, c, want)
		}
	}
}

// TestMostSpecificNameWins: the first of the tree's names, then more of the profile's, then the alphabet; each is explained.
func TestMostSpecificNameWins(t *testing.T) {
	f := Facts{Machine: "aarch64", Compatible: []string{"v,board-rev2", "v,board", "v,soc"}}
	profiles := []Known{
		{ID: "soc", Arch: "arm64", Detect: Detect{Compatible: []string{"v,soc"}}},
		{ID: "b", Arch: "arm64", Detect: Detect{Compatible: []string{"v,board"}}},
		{ID: "a", Arch: "arm64", Detect: Detect{Compatible: []string{"v,board"}}},
		{ID: "family", Arch: "arm64", Detect: Detect{Compatible: []string{"v,board", "v,soc"}}},
		{ID: "generic-arm64", Arch: "arm64"},
	}
	c := Pick(profiles, f)
	all := strings.Join(c.Others, "\n")
	if c.ID != "family" || c.Why != `the device tree says "v,board"` || !strings.Contains(all, "a: ") || !strings.Contains(all, "fewer of its names") || !strings.Contains(all, "soc: the device tree says \"v,soc\"; which is less specific") {
		t.Errorf("%+v", c)
	}
	c = Pick(profiles[:3], f)
	if c.ID != "a" || !strings.Contains(strings.Join(c.Others, "\n"), "b: the device tree says \"v,board\"; a tie, which") {
		t.Errorf("%+v", c)
	}
	exact := append(profiles, Known{ID: "rev2", Arch: "arm64", Detect: Detect{Compatible: []string{"v,board-rev2"}}})
	if c = Pick(exact, f); c.ID != "rev2" {
		t.Errorf("%+v", c)
	}
	for i := range exact { // in any order of the profiles
		if got := Pick(append(slices.Clone(exact[i:]), exact[:i]...), f); got.ID != c.ID || !slices.Equal(got.Others, c.Others) {
			t.Errorf("turned by %d: %+v", i, got)
		}
	}
}

// TestNoNameMeansTwoBoards: a tie cannot come from the profiles of this weir.
func TestNoNameMeansTwoBoards(t *testing.T) {
	of := map[string]string{}
	for _, k := range Index() {
		for _, name := range k.Detect.Compatible {
			if other := of[name]; other != "" {
				t.Errorf("%s is %s and %s", name, other, k.ID)
			}
			of[name] = k.ID
		}
	}
}

// TestPlantedFault: an order that does not ask which name is more specific takes a board for another one with its processor.
func TestPlantedFault(t *testing.T) {
	profiles := append(slices.Clone(Index()), Known{ID: "any-bcm2711", Arch: "arm64", Detect: Detect{Compatible: []string{"brcm,bcm2711"}}})
	f := Facts{Machine: "aarch64", Compatible: []string{"raspberrypi,4-compute-module", "brcm,bcm2711"}}
	if c := Pick(profiles, f); c.ID != "rpi-cm4-io" || len(c.Others) != 1 {
		t.Errorf("%+v", c)
	}
	if c := pick(profiles, f, func(a, b match) int { return cmp.Compare(a.id, b.id) }); c.ID != "any-bcm2711" {
		t.Errorf("the planted order is not found: %+v", c)
	}
}

func TestFacts(t *testing.T) {
	f := Read(rootOf(t, map[string]string{
		"proc/meminfo": "MemFree: 1 kB\nMemTotal:       3884312 kB\n", "proc/self/cgroup": "1:name=x:/y\n0::/system.slice/weir.service\n",
		"sys/fs/cgroup/system.slice/weir.service/memory.high": "117440512\n", "sys/fs/cgroup/system.slice/weir.service/memory.max": "max\n",
		"sys/class/dmi/id/sys_vendor": "QEMU\n", "sys/class/dmi/id/product_name": "KVM Virtual Machine\n",
	}))
	if f.RAM != 3884312<<10 || f.CgroupHigh != 112<<20 || f.CgroupMax != 0 || f.Vendor != "QEMU" || f.Product != "KVM Virtual Machine" || f.Machine == "" {
		t.Errorf("%+v", f)
	}
	if f = Read(t.TempDir()); f.RAM != 0 || f.Compatible != nil {
		t.Errorf("of nothing: %+v", f)
	}
}

// FuzzTree: no text of a device tree is anything but names.
func FuzzTree(f *testing.F) {
	f.Add("raspberrypi,4-model-b\x00brcm,bcm2711\x00")
	f.Add("\x00\x00 \n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range treeStrings(text) {
			if s == "" || strings.ContainsRune(s, 0) {
				t.Fatalf("%q of %q", s, text)
			}
		}
	})
}
