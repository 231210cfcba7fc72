package expr

import "testing"

// FuzzParseCall: no source panics; the arguments of a call are expressions, where they are said to be.
func FuzzParseCall(f *testing.F) {
	for _, s := range []string{"avg(temp)", "percentile(temp, 99)", "count()", "sum(a.b[0] ?? len('x,)'))", "f((", "f(1,)", "a + b", "`f`(x)", "f(g(h(1), 2), 3) "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		c, err := ParseCall(src)
		if err != nil {
			if e := err.(*Error); e.Offset < 0 || e.Length < 0 || e.Offset+e.Length > len(src) || e.Msg == "" {
				t.Fatalf("%q: bad error %+v", src, e)
			}
			return
		}
		if c.Name == "" || len(c.Args) != len(c.At) {
			t.Fatalf("%q: %+v", src, c)
		}
		for i, arg := range c.Args {
			if at := c.At[i]; at < 0 || at+len(arg) > len(src) || src[at:at+len(arg)] != arg {
				t.Fatalf("%q: argument %q is not at %d", src, arg, at)
			}
			if _, err := Fields(arg); err != nil {
				t.Fatalf("%q: argument %q: %v", src, arg, err)
			}
		}
	})
}
