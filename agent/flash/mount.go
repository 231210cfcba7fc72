package flash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mount is a line of /proc/self/mountinfo (proc(5)).
type Mount struct {
	Point  string   // where it is
	Root   string   // what of the file system is there: not / of a bind mount or a subvolume
	FS     string   // ext4, tmpfs
	Source string   // /dev/mmcblk0p2
	Device string   // major:minor
	Given  []string // options of the mount and of the file system
}

// Has tells whether one of the options is given.
func (m *Mount) Has(options ...string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return slices.Contains(m.Given, o) })
}

// option gives the value of KEY=VALUE, "" when it is not there.
func (m *Mount) option(key string) string {
	for _, o := range m.Given {
		if v, ok := strings.CutPrefix(o, key+"="); ok {
			return v
		}
	}
	return ""
}

// MountOf finds the mount that holds a path, also one that is not there yet.
func (s System) MountOf(path string) (*Mount, error) {
	b, err := os.ReadFile(s.proc("self", "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("find the file system of %s: %w", path, err)
	}
	var best *Mount
	path = resolved(path)
	for text := range strings.Lines(string(b)) {
		m := parseMount(strings.TrimSpace(text))
		if m != nil && below(path, m.Point) && (best == nil || len(m.Point) >= len(best.Point)) { // a later one lies over an earlier one
			best = m
		}
	}
	if best == nil {
		return nil, fmt.Errorf("find the file system of %s: no mount holds it", path)
	}
	return best, nil
}

// resolved follows links as far as the path is there.
func resolved(path string) string {
	for rest := ""; ; {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(real, rest)
		}
		if path == filepath.Dir(path) {
			return filepath.Join(path, rest)
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
}

func below(path, parent string) bool {
	return path == parent || parent == "/" || strings.HasPrefix(path, parent+"/")
}

// parseMount reads a line, nil when it is none.
func parseMount(text string) *Mount {
	f := strings.Fields(text)
	dash := slices.Index(f, "-")
	if dash < 6 || len(f) < dash+3 {
		return nil
	}
	m := &Mount{Device: f[2], Root: unescaped(f[3]), Point: unescaped(f[4]), FS: f[dash+1], Source: unescaped(f[dash+2]), Given: strings.Split(f[5], ",")}
	if len(f) > dash+3 {
		m.Given = append(m.Given, strings.Split(unescaped(f[dash+3]), ",")...)
	}
	return m
}

// unescaped undoes \040 and its like.
func unescaped(text string) string {
	b := strings.Builder{}
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+4 <= len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
