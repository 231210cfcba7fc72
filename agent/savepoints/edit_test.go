package savepoints_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

func saved(t *testing.T) (*disktest.Mem, *savepoint.File) {
	t.Helper()
	m, _, _ := prepared(t)
	f, err := openSavepoint(m)
	if err != nil {
		t.Fatal(err)
	}
	return m, f
}

func exported(t *testing.T, f *savepoint.File) string {
	t.Helper()
	var b bytes.Buffer
	if err := savepoints.Export(f, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func read(t *testing.T, fsys disk.FS, name string) *savepoint.File {
	t.Helper()
	b, err := disk.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := savepoint.Open(t.Context(), bytes.NewReader(b), int64(len(b)), codec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestImportIsTheInverseOfExport(t *testing.T) {
	m, f := saved(t)
	text := exported(t, f)
	sum, err := savepoints.Import(t.Context(), m, strings.NewReader(text), "/save/b", codec)
	if err != nil || sum != f.Summary { // the sha256 too
		t.Fatalf("%+v, %+v, %v", sum, f.Summary, err)
	}
	if again := exported(t, read(t, m, "/save/b")); again != text {
		t.Error("it differs")
	}
	list := strings.Split(strings.TrimSpace(text), "\n")
	swapped := append([]string{}, list...)
	swapped[len(list)-1], swapped[len(list)-2] = swapped[len(list)-2], swapped[len(list)-1]
	for what, lines := range map[string][]string{
		"entries that do not rise": swapped, "no head": list[1:], "a result that is missing": append(append([]string{}, list[:2]...), list[3:]...),
		"a line twice": append(list, list[len(list)-1]), "no JSON": append(list, "{"), "an unknown field": append(list, `{"entri":{}}`),
		"an entry of no table": append(list, `{"entry":{"uid":"x","table":"t","key":"","value":""}}`), "nothing": nil,
	} {
		if _, err := savepoints.Import(t.Context(), m, strings.NewReader(strings.Join(lines, "\n")), "/save/c", codec); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if names, _ := m.List("/save"); len(names) != 2 {
		t.Errorf("left %v", names)
	}
}

func TestCopyRenamesAndDrops(t *testing.T) {
	m, f := saved(t)
	if _, err := savepoints.Copy(t.Context(), m, f, "/save/b", savepoints.Edit{Rename: map[string]string{"w": "z"}}, codec); err != nil {
		t.Fatal(err)
	}
	b := read(t, m, "/save/b")
	if got, want := exported(t, b), strings.ReplaceAll(exported(t, f), `"uid":"w"`, `"uid":"z"`); got[strings.Index(got, "\n"):] != want[strings.Index(want, "\n"):] || b.Head.Tables[0].UID != "z" {
		t.Errorf("renamed: %s", got)
	}
	if _, err := savepoints.Copy(t.Context(), m, f, "/save/c", savepoints.Edit{Drop: []string{"w"}}, codec); err != nil {
		t.Fatal(err)
	}
	if c := read(t, m, "/save/c"); c.Summary.Entries != 0 || c.Summary.Results != f.Summary.Results {
		t.Errorf("%+v", c.Summary)
	}
	for _, e := range []savepoints.Edit{{Rename: map[string]string{"none": "z"}}, {Drop: []string{"none"}}} {
		if _, err := savepoints.Copy(t.Context(), m, f, "/save/d", e, codec); err == nil || !strings.Contains(err.Error(), `no step "none"`) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}
