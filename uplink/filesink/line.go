package filesink

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// errLine says that a line is torn, damaged or not weir's.
var errLine = errors.New("line is torn or damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// line is one decoded line: an opening or a result. FORMAT.md has its form.
type line struct {
	open       bool
	generation uint64
	inc        uplink.Incarnation
	seq, last  uint64 // of an opening: last is the end of the run, seq unused
	batch      uint64 // first sequence of the batch that the line was written in
	chain      uint64
	stream     string
}

// seal ends a line with its checksum; start is where the line begins in dst.
func seal(dst []byte, start int) []byte { return appendSum(dst, dst[start:]) }

// appendSum appends ,"crc":"xxxxxxxx"} and a line end: the crc32c of body.
func appendSum(dst, body []byte) []byte {
	const digits = "0123456789abcdef"
	sum := crc32.Checksum(body, castagnoli)
	dst = append(dst, `,"crc":"`...)
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[sum>>shift&15])
	}
	return append(dst, '"', '}', '\n')
}

// appendOpen appends the line that begins an incarnation, a generation or a file.
func appendOpen(dst []byte, stream uplink.Stream, inc uplink.Incarnation, generation, last, chain uint64) []byte {
	start := len(dst)
	dst = fmt.Appendf(dst, `{"open":"%s","g":%d,"stream":%s,"last":%d,"chain":"%s"`, inc, generation, strconv.Quote(stream.String()), last,
		wire.FormatChain(chain))
	return seal(dst, start)
}

// appendResult appends a result's line.
func appendResult(dst []byte, b *uplink.Batch, r *pipeline.Result, end bool) []byte {
	start := len(dst)
	dst = wire.AppendResult(dst, r)
	dst = dst[:len(dst)-2] // without its end }\n
	dst = append(dst, `,"b":`...)
	dst = strconv.AppendUint(dst, b.First, 10)
	dst = append(dst, `,"g":`...)
	dst = strconv.AppendUint(dst, b.Generation, 10)
	dst = append(dst, `,"i":"`...)
	dst = append(dst, b.Incarnation.String()...)
	dst = append(dst, '"')
	if end {
		dst = append(append(append(dst, `,"chain":"`...), wire.FormatChain(r.Chain)...), '"')
	}
	return seal(dst, start)
}

// parse reads a line without its end. The row itself is given by wire.ParseLine for tests and tools (Row).
func parse(text []byte) (l line, err error) {
	body, err := unseal(text)
	if err != nil {
		return l, err
	}
	if rest, ok := bytes.CutPrefix(body, []byte(`{"open":"`)); ok {
		return parseOpen(rest)
	}
	head, tail, ok := cutLast(body, `,"b":`)
	if !ok {
		return l, errLine
	}
	w, err := wire.ParseLine(append(bytes.Clone(head), '}'))
	if err != nil {
		return l, fmt.Errorf("%w: %w", errLine, err)
	}
	l.seq, l.last = w.Seq, w.Last
	tail, chain, hasChain := cut(tail, `,"chain":"`)
	batch, rest, ok1 := cut(tail, `,"g":`)
	generation, inc, ok2 := cut(rest, `,"i":"`)
	if !ok1 || !ok2 || len(inc) == 0 || hasChain && len(chain) != 17 {
		return l, errLine
	}
	if hasChain {
		if l.chain, err = wire.ParseChain(string(chain[:16])); err != nil {
			return l, errLine
		}
	}
	var err1, err2, err3 error
	l.batch, err1 = strconv.ParseUint(string(batch), 10, 64)
	l.generation, err2 = strconv.ParseUint(string(generation), 10, 64)
	l.inc, err3 = wire.ParseIncarnation(string(inc[:len(inc)-1]))
	if errors.Join(err1, err2, err3) != nil {
		return l, errLine
	}
	return l, nil
}

// parseOpen reads what follows {"open":".
func parseOpen(b []byte) (l line, err error) {
	inc, rest, ok1 := cut(b, `","g":`)
	generation, rest, ok2 := cut(rest, `,"stream":`)
	stream, rest, ok3 := cutLast(rest, `,"last":`)
	last, chain, ok4 := cut(rest, `,"chain":"`)
	if !ok1 || !ok2 || !ok3 || !ok4 || len(chain) != 17 {
		return l, errLine
	}
	l.open = true
	var err1, err2, err3, err4, err5 error
	l.inc, err1 = wire.ParseIncarnation(string(inc))
	l.generation, err2 = strconv.ParseUint(string(generation), 10, 64)
	l.stream, err3 = strconv.Unquote(string(stream))
	l.last, err4 = strconv.ParseUint(string(last), 10, 64)
	l.chain, err5 = wire.ParseChain(string(chain[:16]))
	if errors.Join(err1, err2, err3, err4, err5) != nil {
		return l, errLine
	}
	return l, nil
}

// sealBytes is the length of the checksum at a line's end.
const sealBytes = len(`,"crc":"00000000"}`)

// unseal checks the checksum and gives what it covers.
func unseal(text []byte) ([]byte, error) {
	if len(text) < sealBytes {
		return nil, errLine
	}
	body, tail := text[:len(text)-sealBytes], text[len(text)-sealBytes:]
	var want [sealBytes + 1]byte
	if !bytes.Equal(tail, bytes.TrimSuffix(appendSum(want[:0], body), []byte{'\n'})) {
		return nil, errLine
	}
	return body, nil
}

// Row gives the row of a line of a sink file, for readers: the JSON text, its sequence, or the reason of a gap.
func Row(text []byte) (wire.Line, bool, error) {
	body, err := unseal(bytes.TrimSuffix(text, []byte{'\n'}))
	if err != nil {
		return wire.Line{}, false, err
	}
	if bytes.HasPrefix(body, []byte(`{"open":`)) {
		return wire.Line{}, false, nil
	}
	head, _, ok := cutLast(body, `,"b":`)
	if !ok {
		return wire.Line{}, false, errLine
	}
	l, err := wire.ParseLine(append(bytes.Clone(head), '}'))
	return l, err == nil, err
}

func cut(b []byte, sep string) (before, after []byte, ok bool) { return bytes.Cut(b, []byte(sep)) }

func cutLast(b []byte, sep string) (before, after []byte, ok bool) {
	i := bytes.LastIndex(b, []byte(sep))
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+len(sep):], true
}
