package config

import "testing"

// FuzzQuantities: what is read as a duration or a size prints as something that reads the same.
func FuzzQuantities(f *testing.F) {
	for _, s := range []string{"0", "250ms", "1.5h", "1d 2h", "3min", "7us", "5 weeks", "-5s", "64KiB", "1.5MiB", "1 MB", "1e9", "99999999999d", "99999999999TiB", "0.0000001s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil {
			if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d || d < 0 {
				t.Fatalf("duration %q is %v, printed %q, read %v (%v)", text, int64(d), FormatDuration(d), int64(again), err)
			}
		}
		if n, err := ParseSize(text); err == nil {
			if again, err := ParseSize(FormatSize(n)); err != nil || again != n || n < 0 {
				t.Fatalf("size %q is %d, printed %q, read %d (%v)", text, n, FormatSize(n), again, err)
			}
		}
	})
}
