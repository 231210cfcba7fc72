package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"
)

// plain is a node as JSON would hold it.
func plain(n *node) any {
	switch n.shape {
	case shapeMapping:
		out := map[string]any{}
		for _, e := range n.entries {
			out[e.key.text] = plain(e.value)
		}
		return out
	case shapeList:
		out := []any{}
		for _, item := range n.items {
			out = append(out, plain(item))
		}
		return out
	case shapeNull:
		return nil
	}
	switch n.scalar {
	case scalarBool:
		return n.text == "true"
	case scalarInt, scalarFloat:
		f, _ := strconv.ParseFloat(n.text, 64)
		return f
	}
	return n.text
}

// check judges a value by the part of JSON Schema that Schema uses; an unknown keyword is a failure of the test itself.
func check(schema map[string]any, v any, at string) (failures []string) {
	fail := func(format string, args ...any) { failures = append(failures, at+": "+fmt.Sprintf(format, args...)) }
	for keyword, want := range schema {
		switch keyword {
		case "$schema", "$id", "title", "description", "default":
		case "type":
			if !hasType(want, v) {
				fail("%v is not of type %v", v, want)
			}
		case "enum":
			if !slices.Contains(want.([]any), v) {
				fail("%v is not one of %v", v, want)
			}
		case "const":
			if v != want {
				fail("%v is not %v", v, want)
			}
		case "pattern":
			if s, ok := v.(string); ok && !regexp.MustCompile(want.(string)).MatchString(s) {
				fail("%q does not match %s", s, want)
			}
		case "minLength", "maxLength":
			if s, ok := v.(string); ok {
				if n := float64(utf8.RuneCountInString(s)); keyword == "minLength" && n < want.(float64) || keyword == "maxLength" && n > want.(float64) {
					fail("%q: %s %v", s, keyword, want)
				}
			}
		case "minimum", "maximum":
			if f, ok := v.(float64); ok && (keyword == "minimum" && f < want.(float64) || keyword == "maximum" && f > want.(float64)) {
				fail("%v: %s %v", f, keyword, want)
			}
		case "minItems", "minProperties":
			if l, ok := v.([]any); ok && float64(len(l)) < want.(float64) {
				fail("%d items, want %v", len(l), want)
			}
		case "items":
			if l, ok := v.([]any); ok {
				for i := range l {
					failures = append(failures, check(want.(map[string]any), l[i], fmt.Sprintf("%s[%d]", at, i))...)
				}
			}
		case "anyOf":
			good := false
			for _, option := range want.([]any) {
				good = good || len(check(option.(map[string]any), v, at)) == 0
			}
			if !good {
				fail("%v fits none of the alternatives", v)
			}
		case "required":
			if m, ok := v.(map[string]any); ok {
				for _, key := range want.([]any) {
					if _, there := m[key.(string)]; !there {
						fail("%s is missing", key)
					}
				}
			}
		case "properties", "additionalProperties", "propertyNames":
			failures = append(failures, checkMembers(keyword, schema, v, at)...)
		default:
			fail("the schema uses %s, which this test does not know", keyword)
		}
	}
	return failures
}

func checkMembers(keyword string, schema map[string]any, v any, at string) (failures []string) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	known, _ := schema["properties"].(map[string]any)
	for key, value := range m {
		own, named := known[key].(map[string]any)
		switch {
		case keyword == "propertyNames":
			failures = append(failures, check(schema[keyword].(map[string]any), key, at+"."+key)...)
		case keyword == "properties" && named:
			failures = append(failures, check(own, value, at+"."+key)...)
		case keyword == "additionalProperties" && !named:
			if other, ok := schema[keyword].(map[string]any); ok {
				failures = append(failures, check(other, value, at+"."+key)...)
			} else {
				failures = append(failures, at+"."+key+" is not known")
			}
		}
	}
	return failures
}

func hasType(want, v any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return hasType(one, v) })
	}
	switch v := v.(type) {
	case map[string]any:
		return want == "object"
	case []any:
		return want == "array"
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "number" || want == "integer" && v == float64(int64(v))
	}
	return false
}

// TestSchemaRefuses: what the schema is there to find.
func TestSchemaRefuses(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"unknown-key", "unknown-key-nested", "wrong-type", "missing", "enum", "out-of-range", "names"} {
		root, _ := parseFile(t, "testdata/bad/"+file+".yaml")
		if len(check(schema, plain(root), "")) == 0 {
			t.Errorf("%s: accepted", file)
		}
	}
}
