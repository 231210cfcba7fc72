package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"temp", "device", "max", "min", "allowed_lateness", "tumbling", "TEMP2"}
	for name, want := range map[string]string{
		"tepm": "temp", "Temp": "temp", "temp": "temp", "temp2": "TEMP2", "devise": "device", "tumblng": "tumbling", "allowed_latness": "allowed_lateness",
		"mxx": "max", "pressure": "", "x": "", "": "", "mix": "max", strings.Repeat("a", 200): "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := Nearest("a", nil); got != "" {
		t.Errorf("%q from nothing", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"größe", "grosse", 3}, {"abc", "abc", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a); got != c.want {
			t.Errorf("%s, %s: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
