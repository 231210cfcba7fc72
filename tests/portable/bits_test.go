package portable

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// drawing makes expressions of which each is a number.
type drawing struct{ *rand.Rand }

func (d drawing) of(all ...string) string { return all[d.IntN(len(all))] }

func (d drawing) expression(depth int) string {
	if depth == 0 || d.IntN(6) == 0 {
		return d.of("f", "f", "g", "v", "id", "0.1", "3", "7.25", "1e-3", "1e10", "-2")
	}
	a, b := d.expression(depth-1), d.expression(depth-1)
	return fmt.Sprintf(d.of("(%s + %s)", "(%s - %s)", "(%s * %s)", "(%s * %s + f)", "(%s / %s)", "(f * g - %s * %s)", "min(%s, %s)", "max(%s, %s)", "(%s %% %s)",
		"pow(abs(%s), clamp(%s, -4, 4))", "(exp(clamp(%s, -700, 700)) + %s)", "(log(abs(%s) + 1) * %s)", "(sqrt(abs(%s)) - %s)", "(round(%s, 3) + floor(%s))",
		"(float(string(%s)) - %s)", "(abs(%s) + trunc(%s))"), a, b)
}

// calculations is a config whose steps compute with what is drawn: expressions, and all aggregates over numbers of every size.
func (d drawing) calculations(selects int) string {
	config := setting{1, "memory", "log"}.config("/nowhere", "127.0.0.1:1", "x")
	var more, ends strings.Builder
	for i := range selects {
		fmt.Fprintf(&more, "      - {uid: x%d, from: %s, select: {id: id", i, d.of("a", "b"))
		for c := range 3 {
			fmt.Fprintf(&more, ", c%d: %q", c, d.expression(4))
		}
		more.WriteString("}}\n")
		fmt.Fprintf(&more, "      - {uid: w%d, from: x%d, window: {count: 50}, aggregate: {sum: sum(c0), mean: avg(c0), sd: stddev(c1), p: \"percentile(c2, 90)\"}}\n", i, i)
		for _, from := range []string{"x", "w"} {
			fmt.Fprintf(&ends, "      - {uid: to-%s%d, from: %s%d, file: {path: %s%d.jsonl}}\n", from, i, from, i, from, i)
		}
	}
	config = strings.ReplaceAll(config, "f: float,", "f: float, g: float,")
	config = strings.Replace(config, "    sinks:\n", more.String()+"    sinks:\n"+ends.String(), 1)
	return strings.Replace(config, "distinct(v)", "distinct(f), many: distinct(id * 1000 + v)", 1)
}

// recording is messages of the config with a field g that is any float there is.
func (d drawing) recording(n int) []byte {
	var b bytes.Buffer
	for i, m := range messages(d.Rand, n) {
		g := math.Float64frombits(d.Uint64())
		for math.IsNaN(g) || math.IsInf(g, 0) {
			g = math.Float64frombits(d.Uint64())
		}
		payload := fmt.Appendf(m.payload[:len(m.payload)-1:len(m.payload)-1], `,"g":%v}`, g)
		fmt.Fprintf(&b, "{\"n\":%d,\"at_ms\":%d,\"topic\":%q,\"qos\":1,\"payload\":%q}\n", i+1, int64(startMs)+int64(i)*2, m.topic, payload)
	}
	return b.Bytes()
}

// TestResultsAreEqualToTheBit: drawn expressions and all aggregates, over numbers of every size, on every processor. A number is written by the fewest digits
// that name its bits, so that equal text is equal bits.
func TestResultsAreEqualToTheBit(t *testing.T) {
	needMachines(t)
	d, dir := drawing{rand.New(rand.NewPCG(9, 10))}, t.TempDir()
	rounds, selects := 1, 60
	if long() {
		rounds, selects = 20, 120
	}
	for range rounds {
		config, recording := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "recording.jsonl")
		if err := os.WriteFile(config, []byte(d.calculations(selects)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(recording, d.recording(1500), 0o644); err != nil {
			t.Fatal(err)
		}
		made := map[string]string{}
		for name, m := range machines {
			call := m.command("replay", "-q", "--pipeline", config, "--input", recording)
			cmd := exec.CommandContext(t.Context(), call[0], call[1:]...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("replay on %s: %v\n%s", name, err, stderr.String())
			}
			made[name] = bySink(string(out))
		}
		rows := strings.Count(made["amd64"], "\n")
		if rows < selects*100 {
			t.Errorf("%d rows of %d selects: nearly all were refused", rows, selects)
		}
		for name := range machines {
			if made[name] != made["amd64"] {
				t.Errorf("%s computes otherwise than amd64: %s", name, firstDifference(made[name], made["amd64"]))
			}
		}
		t.Logf("%d rows", rows)
	}
}

// bySink puts the rows of each sink together: only within a sink do they have an order.
func bySink(out string) string {
	lines := strings.SplitAfter(out, "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		a, _, _ = strings.Cut(a, ",")
		b, _, _ = strings.Cut(b, ",")
		return strings.Compare(a, b)
	})
	return strings.Join(lines, "")
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("row %d is\n  %s, want\n  %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d rows, want %d", len(g), len(w))
}

// TestTheNumbersTellFusedFromRounded: of the drawn numbers, products that are fused with a sum differ from rounded ones, else nothing above shows anything.
func TestTheNumbersTellFusedFromRounded(t *testing.T) {
	random, differ := rand.New(rand.NewPCG(9, 10)), 0
	for range 1000 {
		x, y, z := random.NormFloat64(), random.NormFloat64()*100, random.NormFloat64()*100
		if math.FMA(x, y, z) != float64(x*y)+z {
			differ++
		}
	}
	if differ < 100 {
		t.Errorf("%d of 1000 differ", differ)
	}
}

// fused are arm64's instructions that round a product and a sum once.
var fused = regexp.MustCompile(`\bFN?M(ADD|SUB)[DS]\b`)

// TestNothingIsFused looks at what the compiler made for arm64 of every package of the dataflow: a product that meets a sum is rounded by float64(). The package
// math, which has many such instructions, shows that they would be seen.
func TestNothingIsFused(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for arm64; not in -short")
	}
	out, err := makeOf("objects-arm64", "OBJECTS=./pipeline/... ./snapshot/... ./agent/replay math")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for line := range strings.Lines(out) {
		name, object, _ := strings.Cut(strings.TrimSpace(line), " ")
		if object == "" || strings.HasSuffix(name, "test") {
			continue
		}
		code, err := exec.CommandContext(t.Context(), "go", "tool", "objdump", object).Output()
		if err != nil {
			t.Fatalf("look at the code of %s: %v", name, err)
		}
		looked++
		var found []string
		for line := range bytes.Lines(code) {
			if fused.Match(line) {
				found = append(found, strings.Join(strings.Fields(string(line))[:1], " "))
			}
		}
		if (len(found) > 0) != (name == "math") {
			t.Errorf("%s: %d products are fused with sums: %.300s", name, len(found), strings.Join(found, ", "))
		}
	}
	if looked < 15 {
		t.Errorf("looked at %d packages", looked)
	}
}
