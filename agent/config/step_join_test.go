package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline/join"
)

// lookupConfig is a config with one lookup.
func lookupConfig(lookup string) []byte {
	return fmt.Appendf(nil, `brokers:
  plant: {url: "tcp://127.0.0.1:1883"}
sources:
  temp:
    mqtt: {broker: plant, topic: "dev/{device}/temp"}
    fields: {id: int, v: float, room: string, ok: bool}
pipelines:
  p:
    steps:
      - {uid: placed, from: temp, lookup: %s}
    sinks:
      - {uid: out, from: placed, file: {path: out}}
`, lookup)
}

// TestLookupFilesAreChecked: what is wrong with a file is told at its place in the file, what is wrong with the settings at theirs.
func TestLookupFilesAreChecked(t *testing.T) {
	for name, c := range map[string]struct{ lookup, file, content, want string }{
		"good":           {"{file: d.csv, on: {id: id}}", "d.csv", "id,name\n1,a\n", ""},
		"good json":      {"{file: d.json, on: [id]}", "d.json", `[{"id": 1, "name": "a"}]`, ""},
		"no rows":        {"{file: d.json, on: [id]}", "d.json", `[]`, "w.yaml:10:50: lookup: d.json holds no rows; the columns of a JSON file are the members of its objects: it holds one row at least"},
		"no members":     {"{file: d.json, on: [id]}", "d.json", `[{}]`, "w.yaml:10:50: lookup: d.json holds no columns; the columns of a JSON file are the members of its objects: it holds one row at least"},
		"not there":      {"{file: d.csv, on: [id]}", "other.csv", "", `w.yaml:10:50: lookup: read "d.csv": open: file does not exist; a file that weir may read`},
		"cells":          {"{file: d.csv, on: [id]}", "d.csv", "id,name\n1,a\n2\n", "d.csv:3:1: lookup: wrong number of fields"},
		"quote":          {"{file: d.csv, on: [id]}", "d.csv", "id,name\n1,a\"b\n", "d.csv:2:4: lookup: bare \" in non-quoted-field"},
		"empty":          {"{file: d.csv, on: [id]}", "d.csv", "", "d.csv:1:1: lookup: the file has no header"},
		"header":         {"{file: d.csv, on: [id]}", "d.csv", "id,id\n", `d.csv:1:1: lookup: two columns have the name "id"`},
		"twice":          {"{file: d.csv, on: [id]}", "d.csv", "id,name\n1,a\n2,b\n1,c\n", "d.csv:4:1: lookup: the key of this row is that of line 2"},
		"no key":         {"{file: d.csv, on: [id]}", "d.csv", "id,name\n1,a\n,b\n", "d.csv:3:1: lookup: the row has no id, which is its key"},
		"not UTF-8":      {"{file: d.csv, on: [id]}", "d.csv", "id,name\n1,\xff\n", "d.csv:2:3: lookup: the file is not UTF-8"},
		"json, no UTF-8": {"{file: d.json, on: [id]}", "d.json", "[\n {\"id\": \"\u00e9\xff\"}]", "d.json:2:11: lookup: the file is not UTF-8"},
		"marked json":    {"{file: d.json, on: [id]}", "d.json", "\ufeff[{\"id\": 1, \"name\": \"a\"}]", ""},
		"marked, wrong":  {"{file: d.json, on: [id]}", "d.json", "\ufeff[{\"id\": x}]", "d.json:1:9: lookup: invalid character 'x' looking for beginning of value"},
		"too large":      {"{file: d.csv, on: [id]}", "d.csv", "id,name\n" + strings.Repeat("1,a\n", join.TableBytesMax/4), `w.yaml:10:50: lookup: d.csv: the file has 8388616 bytes, allowed are 8388608`},
		"no array":       {"{file: d.json, on: [id]}", "d.json", `{"id": 1}`, "d.json:1:1: lookup: the file is not an array of objects"},
		"no object":      {"{file: d.json, on: [id]}", "d.json", "[\n {\"id\": 1},\n 5]", "d.json:3:2: lookup: row 2 is no object"},
		"syntax":         {"{file: d.json, on: [id]}", "d.json", "[\n {\"id\": x}]", "d.json:2:9: lookup: invalid character 'x' looking for beginning of value"},
		"cut":            {"{file: d.json, on: [id]}", "d.json", "[\n {\"id\": 1}", "d.json:2:11: lookup: the file ends too early"},
		"member twice":   {"{file: d.json, on: [id]}", "d.json", "[{\"id\": 1, \"id\": 2}]", `d.json:1:12: lookup: "id" stands twice in one object`},
		"number":         {"{file: d.json, on: [id]}", "d.json", "[{\"id\": 1e999}]", `d.json:1:3: lookup: "id": the number 1e999 is out of range`},
		"behind":         {"{file: d.json, on: [id]}", "d.json", "[{\"id\": 1}]\n[]", "d.json:2:1: lookup: invalid character '[' after top-level value"},
		"column":         {"{file: d.csv, on: {id: nr}}", "d.csv", "no,name\n1,a\n", `w.yaml:10:66: d.csv has no column "nr"; its columns are no, name; did you mean "no"?`},
		"wanted":         {"{file: d.csv, on: [id], columns: [names]}", "d.csv", "id,name\n1,a\n", `w.yaml:10:77: d.csv has no column "names"; its columns are id, name; did you mean "name"?`},
		"clash":          {"{file: d.csv, on: [id]}", "d.csv", "id,room\n1,a\n", `w.yaml:10:43: step placed would have two columns "room"; each column has a name of its own; give it another with as, or rename the field with a select step before`},
		"field":          {"{file: d.csv, on: {idd: id}}", "d.csv", "id,name\n1,a\n", `w.yaml:10:62: on: unknown field idd; the fields of source temp are device, id, v, room, ok, $topic, $received, $qos, $retain, $source, $position, $payload; did you mean "id"?`},
		"types":          {"{file: d.json, on: {ok: id}}", "d.json", `[{"id": 1, "name": "a"}]`, `w.yaml:10:63: step placed would find nothing: ok is bool, id of d.json is int; cast the field in a step before, as in cast: {ok: int}`},
		"nothing to add": {"{file: d.csv, on: [id]}", "d.csv", "id\n1\n", `w.yaml:10:43: d.csv has only the columns of on: there is nothing to add; a file with more columns than the key`},
		"no name to be":  {"{file: d.csv, on: [id]}", "d.csv", "id,a b\n1,x\n", `w.yaml:10:43: column "a b" of d.csv: the field name has the character ' '; list the columns that are wanted in columns; a field name is made of letters, digits and _ and does not begin with a digit`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseWith("w.yaml", lookupConfig(c.lookup), func(path string) ([]byte, error) {
				if path != c.file {
					return nil, errors.New("open: file does not exist")
				}
				return []byte(c.content), nil
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestLookupFilesLieBesideTheConfig: a relative path is taken from there, whatever the working directory is; what is no regular file is not read.
func TestLookupFilesLieBesideTheConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("d.csv", []byte("id,name\n1,a\n"))
	file := write("w.yaml", lookupConfig("{file: d.csv, on: [id]}"))
	before, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	write("d.csv", []byte("id,name\n1,b\n"))
	after, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if before.Pipelines[0].Graph.Hash == after.Pipelines[0].Graph.Hash {
		t.Error("another content is the same plan")
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.csv"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(write("dir.yaml", lookupConfig("{file: dir.csv, on: [id]}"))); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory was read: %v", err)
	}
}
