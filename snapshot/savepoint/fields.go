package savepoint

import (
	"math"
	"unicode/utf8"
)

// field is a member of a map: its key, and a pointer to its value.
type field struct {
	name string
	at   any
}

// The members of each map, in the order of deterministic CBOR: shorter keys first.

func (h *Head) fields() []field {
	return []field{
		{"plan", &h.Plan}, {"uuid", &h.UUID}, {"major", &h.Major}, {"minor", &h.Minor}, {"sinks", &h.Sinks}, {"steps", &h.Steps},
		{"format", &h.Format}, {"ledger", &h.Ledger}, {"tables", &h.Tables}, {"writer", &h.Writer},
		{"drained", &h.Drained}, {"gateway", &h.Gateway}, {"journal", &h.Journal}, {"trusted", &h.Trusted}, {"version", &h.Version},
		{"pipeline", &h.Pipeline}, {"position", &h.Position}, {"plan_hash", &h.PlanHash}, {"checkpoint", &h.Checkpoint},
		{"created_ms", &h.CreatedMs}, {"elapsed_ns", &h.ElapsedNs}, {"generation", &h.Generation},
	}
}

func (s *Step) fields() []field {
	return []field{{"uid", &s.UID}, {"kind", &s.Kind}, {"params", &s.Params}, {"stateful", &s.Stateful}, {"behaviour", &s.Behaviour}}
}

func (t *Table) fields() []field {
	return []field{
		{"uid", &t.UID}, {"kind", &t.Kind}, {"name", &t.Name}, {"type", &t.Type}, {"ttl_ns", &t.TTLNs}, {"version", &t.Version},
		{"max_keys", &t.MaxKeys},
	}
}

func (s *Sink) fields() []field {
	return []field{
		{"seq", &s.Seq}, {"uid", &s.UID}, {"chain", &s.Chain}, {"confirmed", &s.Confirmed}, {"generation", &s.Generation},
		{"chain_confirmed", &s.ChainConfirmed},
	}
}

func (c *chunk) fields() []field {
	return []field{
		{"of", &c.Of}, {"data", &c.Data}, {"kind", &c.Kind}, {"size", &c.Size}, {"codec", &c.Codec}, {"count", &c.Count},
	}
}

func appendMap(dst []byte, fields []field) []byte {
	dst = appendHead(dst, majorMap, uint64(len(fields)))
	for _, f := range fields {
		dst = appendValue(appendText(dst, f.name), f.at)
	}
	return dst
}

func appendValue(dst []byte, at any) []byte {
	switch v := at.(type) {
	case *string:
		return appendText(dst, *v)
	case *uint64:
		return appendHead(dst, majorUint, *v)
	case *int64:
		return appendInt(dst, *v)
	case *bool:
		if *v {
			return append(dst, formTrue)
		}
		return append(dst, formFalse)
	case *[]byte:
		return appendBytesOrNull(dst, *v)
	case *[]Step:
		return appendList(dst, *v == nil, len(*v), func(i int) []field { return (*v)[i].fields() })
	case *[]Table:
		return appendList(dst, *v == nil, len(*v), func(i int) []field { return (*v)[i].fields() })
	case *[]Sink:
		return appendList(dst, *v == nil, len(*v), func(i int) []field { return (*v)[i].fields() })
	}
	panic("BUG: a field of a type that has no form")
}

func appendText(dst []byte, s string) []byte {
	return append(appendHead(dst, majorText, uint64(len(s))), s...)
}

func appendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return appendHead(dst, majorNeg, uint64(^n))
	}
	return appendHead(dst, majorUint, uint64(n))
}

func appendBytesOrNull(dst, b []byte) []byte {
	if b == nil {
		return append(dst, formNull)
	}
	return append(appendHead(dst, majorBytes, uint64(len(b))), b...)
}

func appendList(dst []byte, null bool, n int, at func(i int) []field) []byte {
	if null {
		return append(dst, formNull)
	}
	dst = appendHead(dst, majorArray, uint64(n))
	for i := range n {
		dst = appendMap(dst, at(i))
	}
	return dst
}

// reader takes items off b until one has not the form that is wanted: err keeps why, and all further ones are zero. Byte strings are those of b.
type reader struct {
	b   []byte
	err error
}

// end gives the error, if only that there is more.
func (r *reader) end() error {
	if len(r.b) > 0 {
		r.fail(errForm)
	}
	return r.err
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// head takes the head of an item of the wanted type.
func (r *reader) head(want byte) (n uint64) {
	major, n, rest, err := nextHead(r.b)
	if err == nil && major != want {
		err = errForm
	}
	if err != nil {
		r.fail(err)
		return 0
	}
	r.b = rest
	return n
}

// take takes n bytes.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(errShort)
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// null takes a null, if there is one.
func (r *reader) null() bool {
	if len(r.b) == 0 || r.b[0] != formNull {
		return false
	}
	r.b = r.b[1:]
	return true
}

func (r *reader) uint() uint64 { return r.head(majorUint) }

func (r *reader) int() int64 {
	major := byte(majorUint)
	if len(r.b) > 0 && r.b[0]&^31 == majorNeg {
		major = majorNeg
	}
	n := r.head(major)
	if n > math.MaxInt64 {
		r.fail(errForm)
		return 0
	}
	if major == majorNeg {
		return ^int64(n)
	}
	return int64(n)
}

func (r *reader) text() []byte {
	s := r.take(r.head(majorText))
	if !utf8.Valid(s) {
		r.fail(errForm)
	}
	return s
}

func (r *reader) bytes() []byte {
	if r.null() {
		return nil
	}
	return r.take(r.head(majorBytes))
}

// array takes the head of an array of n elements.
func (r *reader) array(n uint64) {
	if r.head(majorArray) != n {
		r.fail(errForm)
	}
}

// members takes a map. Keys that are not in fields are passed over.
func (r *reader) members(fields []field) {
	n := r.head(majorMap)
	if n > pairsMax {
		r.fail(errForm)
	}
	var last []byte
	for i := uint64(0); i < n && r.err == nil; i++ {
		from := r.b
		key := r.text()
		raw := from[:len(from)-len(r.b)]
		if i > 0 && string(raw) <= string(last) {
			r.fail(errForm)
			return
		}
		last = raw
		r.member(fields, key)
	}
}

func (r *reader) member(fields []field, key []byte) {
	for _, f := range fields {
		if f.name == string(key) {
			r.value(f.at)
			return
		}
	}
	n, err := walk(r.b, depthMax)
	if err != nil {
		r.fail(err)
		return
	}
	r.take(uint64(n))
}

func (r *reader) value(at any) {
	switch v := at.(type) {
	case *string:
		*v = string(r.text())
	case *uint64:
		*v = r.uint()
	case *int64:
		*v = r.int()
	case *bool:
		n := r.head(majorSimple)
		if *v = n == formTrue&31; !*v && n != formFalse&31 {
			r.fail(errForm)
		}
	case *[]byte:
		*v = r.bytes()
	case *[]Step:
		r.list(func() { *v = []Step{} }, func() []field { *v = append(*v, Step{}); return (*v)[len(*v)-1].fields() })
	case *[]Table:
		r.list(func() { *v = []Table{} }, func() []field { *v = append(*v, Table{}); return (*v)[len(*v)-1].fields() })
	case *[]Sink:
		r.list(func() { *v = []Sink{} }, func() []field { *v = append(*v, Sink{}); return (*v)[len(*v)-1].fields() })
	default:
		panic("BUG: a field of a type that has no form")
	}
}

// list takes an array of maps; null is none.
func (r *reader) list(begin func(), next func() []field) {
	if r.null() {
		return
	}
	n := r.head(majorArray)
	if n > elementsMax {
		r.fail(errForm)
	}
	begin()
	for i := uint64(0); i < n && r.err == nil; i++ {
		r.members(next())
	}
}
