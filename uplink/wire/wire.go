// Package wire is the encoding of weir's HTTP delivery protocol (../PROTOCOL.md), for the sender in httpsink and the
// receiver alike. It does no I/O. Each decoder takes hostile input.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// Version of the protocol, in header Weir-Protocol.
const Version = "1"

// Headers of a request.
const (
	HeaderProtocol    = "Weir-Protocol"
	HeaderVerb        = "Weir-Verb"
	HeaderStream      = "Weir-Stream"
	HeaderGeneration  = "Weir-Generation"
	HeaderIncarnation = "Weir-Incarnation"
	HeaderBoard       = "Weir-Board"
	HeaderPrevious    = "Weir-Previous"
	HeaderFirst       = "Weir-First"
	HeaderLast        = "Weir-Last"
	HeaderChain       = "Weir-Chain"
	HeaderKey         = "Idempotency-Key"
)

// Verbs.
const (
	VerbOpen    = "open"
	VerbSend    = "send"
	VerbConfirm = "confirm"
)

// ContentType of a body of lines.
const ContentType = "application/x-ndjson"

// Errors of the decoders.
var (
	// ErrRequest says that a request does not follow PROTOCOL.md; the text names the header.
	ErrRequest = errors.New("malformed request")
	// ErrBody says that a body line does not follow PROTOCOL.md or the headers.
	ErrBody = errors.New("malformed body")
)

// Request is what the headers say.
type Request struct {
	Verb        string
	Stream      uplink.Stream
	Generation  uint64
	Incarnation uplink.Incarnation
	Board       string
	Previous    uint64
	First, Last uint64
	Chain       uint64
}

// SetHeaders writes a request's headers. Those of a bare number are set without canonicalising: the names are canonical.
func SetHeaders(h http.Header, r *Request) {
	set := func(k, v string) { h[k] = []string{v} }
	set(HeaderProtocol, Version)
	set(HeaderVerb, r.Verb)
	set(HeaderStream, r.Stream.String())
	set(HeaderGeneration, strconv.FormatUint(r.Generation, 10))
	set(HeaderIncarnation, r.Incarnation.String())
	if r.Board != "" {
		set(HeaderBoard, r.Board)
	}
	if r.Verb == VerbSend {
		set(HeaderPrevious, strconv.FormatUint(r.Previous, 10))
		set(HeaderFirst, strconv.FormatUint(r.First, 10))
		set(HeaderLast, strconv.FormatUint(r.Last, 10))
		set(HeaderChain, FormatChain(r.Chain))
	}
}

// ParseHeaders is the inverse of SetHeaders.
func ParseHeaders(h http.Header) (Request, error) {
	var r Request
	if v := h.Get(HeaderProtocol); v != Version {
		return r, fmt.Errorf("%w: %s is %q, this side speaks %s", ErrRequest, HeaderProtocol, v, Version)
	}
	r.Verb = h.Get(HeaderVerb)
	var err error
	if r.Stream, err = ParseStream(h.Get(HeaderStream)); err != nil {
		return r, err
	}
	if r.Incarnation, err = ParseIncarnation(h.Get(HeaderIncarnation)); err != nil {
		return r, err
	}
	r.Board = h.Get(HeaderBoard)
	if len(r.Board) > 256 {
		return r, fmt.Errorf("%w: %s has %d bytes, allowed is 256", ErrRequest, HeaderBoard, len(r.Board))
	}
	numbers := []struct {
		name string
		dst  *uint64
	}{{HeaderGeneration, &r.Generation}}
	switch r.Verb {
	case VerbOpen, VerbConfirm:
	case VerbSend:
		numbers = append(numbers, []struct {
			name string
			dst  *uint64
		}{{HeaderPrevious, &r.Previous}, {HeaderFirst, &r.First}, {HeaderLast, &r.Last}}...)
		if r.Chain, err = ParseChain(h.Get(HeaderChain)); err != nil {
			return r, err
		}
	default:
		return r, fmt.Errorf("%w: %s is %q", ErrRequest, HeaderVerb, r.Verb)
	}
	for _, n := range numbers {
		if *n.dst, err = strconv.ParseUint(h.Get(n.name), 10, 64); err != nil {
			return r, fmt.Errorf("%w: %s is %q", ErrRequest, n.name, h.Get(n.name))
		}
	}
	if r.Verb == VerbSend && (r.First == 0 || r.Previous != r.First-1 || r.Last < r.First) {
		return r, fmt.Errorf("%w: range (%d, %d..%d)", ErrRequest, r.Previous, r.First, r.Last)
	}
	if r.Generation == 0 {
		return r, fmt.Errorf("%w: %s is 0", ErrRequest, HeaderGeneration)
	}
	return r, nil
}

// ParseStream takes gateway/pipeline/sink apart.
func ParseStream(s string) (uplink.Stream, error) {
	p := strings.Split(s, "/")
	if len(p) != 3 || p[0] == "" || p[1] == "" || p[2] == "" || len(s) > 512 {
		return uplink.Stream{}, fmt.Errorf("%w: %s is %.80q, want gateway/pipeline/sink", ErrRequest, HeaderStream, s)
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return uplink.Stream{}, fmt.Errorf("%w: %s holds a control character", ErrRequest, HeaderStream)
		}
	}
	return uplink.Stream{Gateway: p[0], Pipeline: p[1], Sink: p[2]}, nil
}

// ParseIncarnation is the inverse of Incarnation.String.
func ParseIncarnation(s string) (uplink.Incarnation, error) {
	a, b, ok := strings.Cut(s, ".")
	major, err1 := strconv.ParseUint(a, 10, 32)
	minor, err2 := strconv.ParseUint(b, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return uplink.Incarnation{}, fmt.Errorf("%w: %s is %.40q, want major.minor", ErrRequest, HeaderIncarnation, s)
	}
	return uplink.Incarnation{Major: uint32(major), Minor: uint32(minor)}, nil
}

// FormatChain prints 16 hexadecimal digits.
func FormatChain(c uint64) string { return fmt.Sprintf("%016x", c) }

// ParseChain is the inverse; "" is 0.
func ParseChain(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	c, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("%w: %s is %.40q, want 16 hexadecimal digits", ErrRequest, HeaderChain, s)
	}
	return c, nil
}

// AppendResult appends one line: {"seq":5,"data":ROW} or {"seq":5,"last":7,"gap":"reason"}. A row is one JSON value; line
// breaks in it can only be white space and become blanks.
func AppendResult(dst []byte, r *pipeline.Result) []byte {
	if r.Kind == pipeline.ResultGap {
		return AppendGap(dst, r.Seq, r.Last, string(r.Payload))
	}
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, r.Seq, 10)
	dst = append(dst, `,"data":`...)
	dst = AppendRow(dst, r.Payload)
	return append(dst, '}', '\n')
}

// AppendGap appends the line of a gap.
func AppendGap(dst []byte, first, last uint64, reason string) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, first, 10)
	dst = append(dst, `,"last":`...)
	dst = strconv.AppendUint(dst, last, 10)
	dst = append(dst, `,"gap":`...)
	text, _ := json.Marshal(reason) // a string always encodes
	return append(append(dst, text...), '}', '\n')
}

// AppendRow appends a JSON text as one line without its end.
func AppendRow(dst, row []byte) []byte {
	n := len(dst)
	dst = append(dst, row...)
	if bytes.IndexByte(row, '\n') >= 0 || bytes.IndexByte(row, '\r') >= 0 {
		for i := n; i < len(dst); i++ {
			if dst[i] == '\n' || dst[i] == '\r' {
				dst[i] = ' '
			}
		}
	}
	return dst
}

// Line is one line of a body. Data and Raw alias the body.
type Line struct {
	Seq, Last uint64
	Gap       bool
	Reason    string
	Data      []byte // the row, a JSON text; nil for a gap
	Raw       []byte // the line without its end
}

// ParseLine takes exactly what AppendResult makes; the row itself is not looked into.
func ParseLine(line []byte) (Line, error) {
	l := Line{Raw: line}
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return l, badLine(line)
	}
	if l.Seq, rest, ok = number(rest); !ok || l.Seq == 0 {
		return l, badLine(line)
	}
	l.Last = l.Seq
	if data, ok := bytes.CutPrefix(rest, []byte(`,"data":`)); ok {
		if l.Data, ok = bytes.CutSuffix(data, []byte{'}'}); !ok || len(l.Data) == 0 {
			return l, badLine(line)
		}
		return l, nil
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"last":`)); !ok {
		return l, badLine(line)
	}
	if l.Last, rest, ok = number(rest); !ok || l.Last < l.Seq {
		return l, badLine(line)
	}
	l.Gap = true
	rest, ok1 := bytes.CutPrefix(rest, []byte(`,"gap":`))
	rest, ok2 := bytes.CutSuffix(rest, []byte{'}'})
	if !ok1 || !ok2 {
		return l, badLine(line)
	}
	if l.Reason, ok = reason(rest); !ok {
		return l, badLine(line)
	}
	return l, nil
}

// reason decodes a gap's text. It stands alone so that only gaps, and not every Line, go to the heap.
func reason(b []byte) (text string, ok bool) {
	err := json.Unmarshal(b, &text)
	return text, err == nil
}

func badLine(line []byte) error { return fmt.Errorf("%w: line %.60q", ErrBody, line) }

// number reads the canonical decimal digits at the head of b.
func number(b []byte) (uint64, []byte, bool) {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	if n == 0 || n > 20 || n > 1 && b[0] == '0' {
		return 0, b, false
	}
	var v uint64
	for _, c := range b[:n] {
		hi, lo := bits.Mul64(v, 10)
		sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if hi != 0 || carry != 0 {
			return 0, b, false
		}
		v = sum
	}
	return v, b[n:], true
}

// Lines calls f for each line of a body and checks that they run from first to last without a hole.
func Lines(body []byte, first, last uint64, f func(Line) error) error {
	next := first
	for len(body) > 0 {
		line, rest, ok := bytes.Cut(body, []byte{'\n'})
		if !ok {
			return fmt.Errorf("%w: it ends within a line", ErrBody)
		}
		body = rest
		l, err := ParseLine(line)
		if err != nil {
			return err
		}
		if l.Seq != next || l.Last > last {
			return fmt.Errorf("%w: sequence %d..%d where %d comes next, of %d..%d", ErrBody, l.Seq, l.Last, next, first, last)
		}
		if next = l.Last + 1; next == 0 {
			return fmt.Errorf("%w: sequence runs over", ErrBody)
		}
		if err := f(l); err != nil {
			return err
		}
	}
	if next != last+1 {
		return fmt.Errorf("%w: it ends at %d of %d..%d", ErrBody, next-1, first, last)
	}
	return nil
}
