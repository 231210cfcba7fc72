package main

import (
	"io/fs"
	"testing"
)

func TestMemoryAllowed(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing known", nil, 0},
		{"half of the machine", map[string]string{"/proc/meminfo": "MemFree: 1 kB\nMemTotal:       524288 kB\n"}, 256 << 20},
		{"unlimited service", map[string]string{
			"/proc/meminfo": "MemTotal: 524288 kB\n", "/proc/self/cgroup": "0::/system.slice/weir.service\n",
			"/sys/fs/cgroup/system.slice/weir.service/memory.max": "max\n",
		}, 256 << 20},
		{"high below max", map[string]string{
			"/proc/meminfo": "MemTotal: 524288 kB\n", "/proc/self/cgroup": "0::/system.slice/weir.service\n",
			"/sys/fs/cgroup/system.slice/weir.service/memory.max":  "134217728\n",
			"/sys/fs/cgroup/system.slice/weir.service/memory.high": "100663296\n",
		}, 96 << 20},
	} {
		got := memoryAllowed(func(name string) ([]byte, error) {
			if s, ok := c.files[name]; ok {
				return []byte(s), nil
			}
			return nil, fs.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
