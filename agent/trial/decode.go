package trial

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/printer"
	"github.com/goccy/go-yaml/token"
)

// decode reads YAML into f, strictly: a key that f has no place for is refused. It takes the library's parser and not its decoder, which comes with an encoder: 0.2 MB of the
// binary for one file format. Anchors, aliases, merge keys and !!str are read.
func decode(text []byte, f *File) error {
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		var located interface {
			FormatError(colored, source bool) string
		}
		if errors.As(err, &located) {
			return errors.New(located.FormatError(false, true))
		}
		return err
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return nil
	}
	d := decoder{anchors: map[string]ast.Node{}, left: nodesMax}
	return d.value(parsed.Docs[0].Body, reflect.ValueOf(f).Elem())
}

// Bounds of what aliases of aliases unfold to, and an alias within its own anchor.
const (
	nodesMax = 1 << 20
	depthMax = 100
)

// decoder knows the anchors that it came by.
type decoder struct {
	anchors map[string]ast.Node
	left    int // nodes that may still be read
	depth   int
}

// read is a type that reads itself.
type read interface {
	decode(d *decoder, n ast.Node) error
}

// wrong tells where, with the lines of the file around it.
func wrong(n ast.Node, format string, args ...any) error {
	tk := n.GetToken()
	var p printer.Printer
	return fmt.Errorf("[%d:%d] %s\n%s", tk.Position.Line, tk.Position.Column, fmt.Sprintf(format, args...), p.PrintErrorToken(tk, false))
}

// plain gives what an anchor, an alias or a tag stands for; nil for nothing.
func (d *decoder) plain(n ast.Node) (ast.Node, error) {
	for {
		if d.left--; d.left < 0 {
			return nil, wrong(n, "the file unfolds to more than %d values", nodesMax)
		}
		switch at := n.(type) {
		case *ast.NullNode:
			return nil, nil
		case *ast.AnchorNode:
			n = at.Value
			d.anchors[at.Name.GetToken().Value] = n
		case *ast.AliasNode:
			name := at.Value.GetToken().Value
			if n = d.anchors[name]; n == nil {
				return nil, wrong(at, "no anchor %q stands before", name)
			}
		case *ast.TagNode:
			if at.Start.Value != string(token.StringTag) {
				return nil, wrong(at, "the tag %s is not supported", at.Start.Value)
			}
			text, err := d.text(at.Value)
			if err != nil {
				return nil, err
			}
			return ast.String(token.New(text, text, at.Value.GetToken().Position)), nil
		default:
			return n, nil
		}
	}
}

// deeper is called one level further down; the caller takes it back.
func (d *decoder) deeper(n ast.Node) error {
	if d.depth++; d.depth > depthMax {
		return wrong(n, "the file is nested too deep: at most %d levels are read", depthMax)
	}
	return nil
}

// entries of a mapping in the order of the file. What is merged stands first, so that the mapping's own replace it.
func (d *decoder) entries(n ast.Node) ([]*ast.MappingValueNode, error) {
	defer func() { d.depth-- }()
	if err := d.deeper(n); err != nil {
		return nil, err
	}
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, wrong(n, "a mapping is wanted here, found %s", n.Type().YAMLName())
	}
	var merged, own []*ast.MappingValueNode
	for _, v := range values {
		if !v.Key.IsMergeKey() {
			own = append(own, v)
			continue
		}
		from, err := d.plain(v.Value)
		if err != nil {
			return nil, err
		}
		sources := []ast.Node{from}
		if list, is := from.(*ast.SequenceNode); is {
			sources = list.Values
		}
		for i := range sources { // of several the first holds
			source, err := d.plain(sources[len(sources)-1-i])
			if err != nil {
				return nil, err
			}
			if source == nil {
				continue
			}
			more, err := d.entries(source)
			if err != nil {
				return nil, err
			}
			merged = append(merged, more...)
		}
	}
	return append(merged, own...), nil
}

// text of a scalar, numbers as they are written.
func (d *decoder) text(n ast.Node) (string, error) {
	n, err := d.plain(n)
	switch n := n.(type) {
	case nil:
		return "", err
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.MappingKeyNode:
		return d.text(n.Value)
	case ast.ScalarNode:
		return n.GetToken().Value, nil
	}
	return "", wrong(n, "text is wanted here, found %s", n.Type().YAMLName())
}

func (d *decoder) value(n ast.Node, into reflect.Value) error {
	n, err := d.plain(n)
	if err != nil || n == nil {
		return err
	}
	defer func() { d.depth-- }()
	if err := d.deeper(n); err != nil {
		return err
	}
	if own, is := into.Addr().Interface().(read); is {
		return own.decode(d, n)
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return d.value(n, into.Elem())
	case reflect.Interface:
		v, err := d.any(n)
		if err == nil && v != nil {
			into.Set(reflect.ValueOf(v))
		}
		return err
	case reflect.Struct:
		if at, is := into.Addr().Interface().(*time.Time); is {
			return d.time(n, at)
		}
		return d.fields(n, into)
	case reflect.Slice:
		return d.list(n, into)
	case reflect.Map:
		return d.mapping(n, into)
	case reflect.String:
		text, err := d.text(n)
		into.SetString(text)
		return err
	case reflect.Bool:
		if b, is := n.(*ast.BoolNode); is {
			into.SetBool(b.Value)
			return nil
		}
		return wrong(n, "true or false is wanted here, found %s", n.Type().YAMLName())
	case reflect.Int:
		if i, is := n.(*ast.IntegerNode); is {
			if v := reflect.ValueOf(i.Value); v.CanInt() || v.CanUint() && v.Uint() <= math.MaxInt {
				if v = v.Convert(into.Type()); !into.OverflowInt(v.Int()) {
					into.Set(v)
					return nil
				}
			}
		}
		return wrong(n, "a whole number is wanted here, found %s", n.GetToken().Value)
	}
	panic(fmt.Sprintf("BUG: a test file has no %s", into.Type()))
}

// time takes what YAML 1.1 calls a timestamp.
func (d *decoder) time(n ast.Node, into *time.Time) error {
	text, err := d.text(n)
	if err != nil {
		return err
	}
	for _, layout := range []string{"2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999", "2006-1-2"} {
		if *into, err = time.Parse(layout, text); err == nil {
			return nil
		}
	}
	return wrong(n, "a time such as 2026-01-01T00:00:00Z is wanted here, found %q", text)
}

func (d *decoder) fields(n ast.Node, into reflect.Value) error {
	all, err := d.entries(n)
	if err != nil {
		return err
	}
	var names []string
	places := map[string]int{}
	for i := range into.NumField() {
		if name := into.Type().Field(i).Tag.Get("yaml"); name != "" {
			names, places[name] = append(names, name), i
		}
	}
	for _, e := range all {
		name, err := d.text(e.Key)
		if err != nil {
			return err
		}
		i, known := places[name]
		if !known {
			return wrong(e.Key, "unknown field %q%s", name, near(name, names))
		}
		into.Field(i).SetZero() // what was merged gives way as a whole
		if err := d.value(e.Value, into.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) list(n ast.Node, into reflect.Value) error {
	list, is := n.(*ast.SequenceNode)
	if !is {
		return wrong(n, "a list is wanted here, found %s", n.Type().YAMLName())
	}
	into.Set(reflect.MakeSlice(into.Type(), len(list.Values), len(list.Values)))
	for i, v := range list.Values {
		if err := d.value(v, into.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) mapping(n ast.Node, into reflect.Value) error {
	all, err := d.entries(n)
	if err != nil {
		return err
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, e := range all {
		name, err := d.text(e.Key)
		if err != nil {
			return err
		}
		v := reflect.New(into.Type().Elem()).Elem()
		if err := d.value(e.Value, v); err != nil {
			return err
		}
		into.SetMapIndex(reflect.ValueOf(name), v)
	}
	return nil
}

// any gives what stands there: int64 or uint64, float64, string, bool, []any, map[string]any or nil.
func (d *decoder) any(n ast.Node) (any, error) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return n.Value, nil
	case *ast.FloatNode:
		return n.Value, nil
	case *ast.InfinityNode:
		return n.Value, nil
	case *ast.NanNode:
		return math.NaN(), nil
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.SequenceNode:
		var list []any
		err := d.list(n, reflect.ValueOf(&list).Elem())
		return list, err
	case *ast.MappingNode, *ast.MappingValueNode:
		var m map[string]any
		err := d.mapping(n, reflect.ValueOf(&m).Elem())
		return m, err
	}
	text, err := d.text(n)
	return text, err
}
