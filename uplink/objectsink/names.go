package objectsink

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
)

// streamDir is the directory of a stream, with its slash.
func streamDir(s uplink.Stream) string {
	return bucket.Escape(s.Gateway) + "/" + bucket.Escape(s.Pipeline) + "/" + bucket.Escape(s.Sink) + "/"
}

// objectName is the name of a claimed object below the stream's directory; parseName is its inverse.
func objectName(c *claim, at int64, number uint64, suffix string) string {
	hour := "dt=none/hr=none"
	if t := time.UnixMilli(at).UTC(); at != pipeline.NoTime && t.Year() >= 0 && t.Year() <= 9999 {
		hour = t.Format("dt=2006-01-02/hr=15")
	}
	return fmt.Sprintf("%s/%010d-%020d-%020d-%012d%s", hour, c.Generation, c.First, c.Last, number, suffix)
}

// name is what an object's name tells.
type name struct {
	generation, first, last, number uint64
	size                            int64
}

var suffixes = []string{".jsonl", ".jsonl.gz", ".jsonl.zst", ".csv", ".csv.gz", ".csv.zst"}

// parseName takes apart a name below the stream's directory.
func parseName(text string) (n name, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "dt=") || !strings.HasPrefix(parts[1], "hr=") {
		return n, false
	}
	base, suffix, _ := strings.Cut(parts[2], ".")
	if !slices.Contains(suffixes, "."+suffix) {
		return n, false
	}
	fields := strings.Split(base, "-")
	if len(fields) != 4 {
		return n, false
	}
	for i, to := range []*uint64{&n.generation, &n.first, &n.last, &n.number} {
		v, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil || fields[i][0] == '+' {
			return n, false
		}
		*to = v
	}
	return n, n.generation > 0 && n.first > 0 && n.first <= n.last
}

// run is what a list of objects tells of a stream.
type run struct {
	generation, seq, highest, claims uint64
}

// runOf finds the end of the unbroken run. Objects of up to void bytes have no lines.
func runOf(all []bucket.Object, void int64) (r run) {
	var names []name
	for _, o := range all {
		n, ok := parseName(o.Name)
		if !ok {
			continue
		}
		r.claims = max(r.claims, n.number)
		if o.Bytes <= void {
			continue
		}
		r.generation = max(r.generation, n.generation)
		names = append(names, n)
	}
	names = slices.DeleteFunc(names, func(n name) bool { return n.generation != r.generation })
	sort.Slice(names, func(i, j int) bool { return int64(names[i].first-names[j].first) < 0 })
	for i, n := range names {
		r.highest = max(r.highest, n.last)
		if i == 0 || n.first == r.seq+1 {
			r.seq = n.last
		}
	}
	return r
}
