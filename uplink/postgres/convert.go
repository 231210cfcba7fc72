package postgres

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink/jsonrow"
)

// form is how a column takes a value.
type form uint8

const (
	formText form = iota // also uuid, enums
	formInt
	formNumeric
	formFloat
	formBool
	formJSON
	formBytes
	formMillis // timestamptz from Unix milliseconds
	formTime   // timestamptz from text
)

// forms of PostgreSQL's base types, with what goes into them. Null stands for fields whose kind only the run tells: each value is looked
// at then.
var forms = map[string]struct {
	form  form
	bits  int
	kinds []pipeline.Kind
	alias string
}{
	"int2":        {formInt, 16, []pipeline.Kind{pipeline.Int, pipeline.Uint}, "smallint"},
	"int4":        {formInt, 32, []pipeline.Kind{pipeline.Int, pipeline.Uint}, "integer"},
	"int8":        {formInt, 64, []pipeline.Kind{pipeline.Int, pipeline.Uint}, "bigint"},
	"numeric":     {formNumeric, 0, []pipeline.Kind{pipeline.Int, pipeline.Uint, pipeline.Float}, "numeric"},
	"float4":      {formFloat, 24, []pipeline.Kind{pipeline.Float, pipeline.Int, pipeline.Uint}, "real"},
	"float8":      {formFloat, 53, []pipeline.Kind{pipeline.Float, pipeline.Int, pipeline.Uint}, "double precision"},
	"bool":        {formBool, 0, []pipeline.Kind{pipeline.Bool}, "boolean"},
	"json":        {formJSON, 0, nil, "json"},
	"jsonb":       {formJSON, 0, nil, "jsonb"},
	"bytea":       {formBytes, 0, []pipeline.Kind{pipeline.Bytes}, "bytea"},
	"uuid":        {formText, 0, []pipeline.Kind{pipeline.String}, "uuid"},
	"timestamptz": {formTime, 0, []pipeline.Kind{pipeline.String}, "timestamp with time zone"},
}

// createType is the type of a column that weir makes.
func createType(c *Column) string {
	switch {
	case c.Timestamp:
		return "timestamptz"
	case c.From == FromSeq || c.From == FromGeneration || c.From == FromTime:
		return "bigint"
	case c.From == FromStream || c.From == FromGateway:
		return "text"
	}
	switch c.Kind {
	case pipeline.Bool:
		return "boolean"
	case pipeline.Int:
		return "bigint"
	case pipeline.Uint:
		return "numeric(20,0)"
	case pipeline.Float:
		return "double precision"
	case pipeline.String:
		return "text"
	case pipeline.Bytes:
		return "bytea"
	}
	return "jsonb"
}

// wanted tells which types a column of the plan may have, for the error that refuses another.
func wanted(c *Column) string {
	return createType(c)
}

// formOf finds how a column of the given base type takes c's values; problem is "" when it can.
func formOf(c *Column, base, category string) (f form, bits int, problem string) {
	if c.Timestamp {
		if base != "timestamptz" {
			return 0, 0, "timestamps names it, so it is to be timestamp with time zone"
		}
		return formMillis, 0, ""
	}
	t, ok := forms[base]
	switch {
	case !ok && (category == "S" || category == "E"):
		return formText, 0, ""
	case !ok:
		return 0, 0, "weir does not write this type"
	case c.Kind == pipeline.Null || t.kinds == nil || slices.Contains(t.kinds, c.Kind):
		return t.form, t.bits, ""
	case base == "timestamptz" && c.Kind == pipeline.Int:
		return 0, 0, "name the column in timestamps to write integer milliseconds as a time"
	}
	return 0, 0, fmt.Sprintf("the rows hold %s", kindName(c.Kind))
}

func kindName(k pipeline.Kind) string {
	switch k {
	case pipeline.Bool:
		return "bool"
	case pipeline.Int:
		return "int"
	case pipeline.Uint:
		return "uint"
	case pipeline.Float:
		return "float"
	case pipeline.String:
		return "text"
	case pipeline.Bytes:
		return "bytes"
	}
	return "JSON"
}

// cast is the SQL that makes the column's type of a text.
func (c *tableColumn) cast(text string) string {
	switch c.form {
	case formMillis:
		return "TIMESTAMPTZ 'epoch' + " + text + "::bigint * INTERVAL '1 millisecond'"
	case formBytes:
		return "decode(" + text + ", 'base64')"
	}
	return text + "::" + c.typeName
}

// appendValue gives the text of a JSON value for the column; null is a NULL, problem says why the record cannot be taken.
func (c *tableColumn) appendValue(raw []byte) (text []byte, null bool, problem string) {
	if bytes.Equal(raw, nullText) && c.form != formJSON {
		return nil, true, ""
	}
	quoted := raw[0] == '"'
	switch c.form {
	case formJSON:
		return raw, bytes.Equal(raw, nullText), ""
	case formText:
		return c.textValue(raw, quoted)
	case formBool:
		if bytes.Equal(raw, trueText) || bytes.Equal(raw, falseText) {
			return raw, false, ""
		}
	case formInt, formMillis:
		if c.integer(raw) {
			return raw, false, ""
		}
		return nil, false, c.misfit(raw, "a whole number in its range")
	case formNumeric:
		if number := raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'; number {
			return raw, false, ""
		}
	case formFloat:
		if c.exact(raw) {
			return raw, false, ""
		}
		return nil, false, c.misfit(raw, "a number that it holds exactly")
	case formBytes:
		if quoted {
			s, err := jsonrow.Unquote(raw)
			if err == nil {
				if _, err = base64.StdEncoding.DecodeString(string(s)); err == nil {
					return s, false, ""
				}
			}
			return nil, false, c.misfit(raw, "base64")
		}
	case formTime:
		if quoted {
			return c.textValue(raw, true)
		}
	}
	return nil, false, c.misfit(raw, c.typeName)
}

var nullText, trueText, falseText = []byte("null"), []byte("true"), []byte("false")

func (c *tableColumn) textValue(raw []byte, quoted bool) ([]byte, bool, string) {
	if !quoted {
		return raw, false, "" // a number, an object: its JSON text
	}
	s, err := jsonrow.Unquote(raw)
	if err != nil {
		return nil, false, c.misfit(raw, "text")
	}
	if bytes.IndexByte(s, 0) >= 0 {
		return nil, false, fmt.Sprintf("column %s: PostgreSQL's text cannot hold U+0000", c.Name)
	}
	return s, false, ""
}

func (c *tableColumn) integer(raw []byte) bool {
	bits := c.bits
	if bits == 0 {
		bits = 64
	}
	_, err := strconv.ParseInt(string(raw), 10, bits)
	return err == nil
}

// exact: an integer that would be rounded silently is refused. A float of the plan is what a double holds anyway.
func (c *tableColumn) exact(raw []byte) bool {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || c.Kind == pipeline.Float {
		return true
	}
	if c.bits == 24 {
		f = float64(float32(f))
	}
	return f < 1<<63 && int64(f) == n
}

const excerptMax = 40

func (c *tableColumn) misfit(raw []byte, want string) string {
	if len(raw) > excerptMax {
		cut := excerptMax
		for cut > 0 && !utf8.RuneStart(raw[cut]) {
			cut--
		}
		return fmt.Sprintf("column %s takes %s, the row holds %s…", c.Name, want, raw[:cut])
	}
	return fmt.Sprintf("column %s takes %s, the row holds %s", c.Name, want, raw)
}

// cleanText makes text that a text column takes: valid UTF-8 without U+0000.
func cleanText(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ToValidUTF8(b, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
}
