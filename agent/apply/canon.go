package apply

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// canon writes a value of a config as text: equal texts mean the same settings. Places in the file and unexported fields, which are derived, are left out.
func canon(v any) string {
	b := &strings.Builder{}
	write(b, reflect.ValueOf(v))
	return b.String()
}

var (
	placeType = reflect.TypeFor[plan.Pos]()
	zoneType  = reflect.TypeFor[*time.Location]()
)

func write(b *strings.Builder, v reflect.Value) {
	if !v.IsValid() {
		b.WriteString("-")
		return
	}
	if v.Type() == zoneType && !v.IsNil() {
		fmt.Fprintf(b, "%q", v.Interface().(*time.Location).String())
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		write(b, v.Elem())
	case reflect.Struct:
		b.WriteString("{")
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Type == placeType || !f.IsExported() {
				continue
			}
			b.WriteString(f.Name + ":")
			write(b, v.Field(i))
			b.WriteString(" ")
		}
		b.WriteString("}")
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice { // the content of a file
			fmt.Fprintf(b, "%x", sha256.Sum256(v.Bytes()))
			return
		}
		b.WriteString("[")
		for i := range v.Len() {
			write(b, v.Index(i))
			b.WriteString(" ")
		}
		b.WriteString("]")
	case reflect.Map:
		entries := map[string]string{}
		for _, key := range v.MapKeys() {
			entries[canon(key.Interface())] = canon(v.MapIndex(key).Interface())
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			b.WriteString(key + ":" + entries[key] + " ")
		}
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
	default:
		fmt.Fprintf(b, "%v", v)
	}
}
