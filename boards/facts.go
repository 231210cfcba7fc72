package boards

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// treeDirs are where the root node of the device tree is.
var treeDirs = []string{"proc/device-tree", "sys/firmware/devicetree/base"}

// Read looks at the machine below root, "/" for the one that this runs on. What cannot be read stays empty: a container hides much of it.
func Read(root string) Facts {
	read := func(name string) string { return readShort(filepath.Join(root, name)) }
	f := Facts{Vendor: strings.TrimSpace(read("sys/class/dmi/id/sys_vendor")), Product: strings.TrimSpace(read("sys/class/dmi/id/product_name"))}
	for _, dir := range treeDirs {
		if list := treeStrings(read(dir + "/compatible")); len(f.Compatible) == 0 {
			f.Compatible = list
		}
		if f.Model == "" {
			f.Model = strings.TrimRight(read(dir+"/model"), "\x00\n")
		}
	}
	f.RAM = memTotal(read("proc/meminfo"))
	f.CgroupHigh, f.CgroupMax = cgroupLimits(read)
	if f.Machine = strings.TrimSpace(read("proc/sys/kernel/arch")); f.Machine == "" { // Linux before 6.1
		f.Machine = uname()
	}
	return f
}

// factMax bounds what is read of one: the longest known list of a device tree has some 200 bytes.
const factMax = 4096

// readShort gives the beginning of a file. What is no file of its own kind (a pipe would never end), or has bytes that no terminal should be sent, is nothing.
func readShort(name string) string {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, factMax))
	if err != nil {
		return ""
	}
	control := func(c rune) bool { return c != 0 && c != '\n' && !unicode.IsPrint(c) && c != '\t' }
	if !utf8.Valid(b) || strings.ContainsFunc(string(b), control) {
		return ""
	}
	return string(b)
}

// treeStrings takes the strings of a property apart (Devicetree Specification 0.4, 2.2.4: each ends with a zero byte).
func treeStrings(text string) (list []string) {
	for s := range strings.SplitSeq(text, "\x00") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

func memTotal(text string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			return parseBytes(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 1024)
		}
	}
	return 0
}

// cgroupLimits are those of this process's own group, with version 2.
func cgroupLimits(read func(string) string) (high, most int64) {
	for line := range strings.Lines(read("proc/self/cgroup")) {
		if group, v2 := strings.CutPrefix(strings.TrimSpace(line), "0::"); v2 {
			dir := "sys/fs/cgroup" + strings.TrimSuffix(group, "/") + "/"
			return parseBytes(read(dir+"memory.high"), 1), parseBytes(read(dir+"memory.max"), 1)
		}
	}
	return 0, 0
}

// parseBytes reads a number of units; "max" and whatever is no number are 0.
func parseBytes(text string, unit int64) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n * unit
}

func uname() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Machine[:])
}
