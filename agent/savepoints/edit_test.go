package savepoints_test

import (
	"bytes"
	"errors"
	"io/fs"
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
	last := len(list) - 2 // before the end
	swapped[last], swapped[last-1] = swapped[last-1], swapped[last]
	for what, lines := range map[string][]string{
		"entries that do not rise": swapped, "no head": list[1:], "a result that is missing": append(append([]string{}, list[:2]...), list[3:]...),
		"a line twice": append(list, list[len(list)-1]), "no JSON": append(list, "{"), "an unknown field": append(list, `{"entri":{}}`),
		"cut short": list[:len(list)-1], "cut within": append(append([]string{}, list[:len(list)-2]...), list[len(list)-1]),
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

// TestImportOfChangedLinesIsOfNoPlan: with the plan's hash, a restore would take what is made of it for what was made before, and upstream would drop it by its numbers.
func TestImportOfChangedLinesIsOfNoPlan(t *testing.T) {
	m, f := saved(t)
	list := strings.Split(strings.TrimSpace(exported(t, f)), "\n")
	none := make([]byte, len(f.Head.PlanHash))
	some := strings.Replace(list[0], strings.Repeat("A", 43), "B"+strings.Repeat("A", 42), 1)
	if some == list[0] {
		t.Fatal("the savepoint has another plan hash")
	}
	list[0] = some
	fewer := append(append([]string{}, list[:len(list)-2]...), `{"end":{}}`)
	sum, err := savepoints.Import(t.Context(), m, strings.NewReader(strings.Join(fewer, "\n")), "/save/b", codec)
	if err != nil || sum.Entries != f.Summary.Entries-1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if b := read(t, m, "/save/b"); !bytes.Equal(b.Head.PlanHash, none) || b.Summary != sum {
		t.Errorf("plan %x, %+v", b.Head.PlanHash, b.Summary)
	}
	if _, err := savepoints.Import(t.Context(), m, strings.NewReader(strings.Join(list, "\n")), "/save/b", codec); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: %v", err)
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
	until := func(text string) string { return text[:strings.Index(text, `{"end"`)] }
	if got, want := until(exported(t, b)), strings.ReplaceAll(until(exported(t, f)), `"uid":"w"`, `"uid":"z"`); got[strings.Index(got, "\n"):] != want[strings.Index(want, "\n"):] || b.Head.Tables[0].UID != "z" {
		t.Errorf("renamed: %s", got)
	}
	if _, err := savepoints.Copy(t.Context(), m, f, "/save/c", savepoints.Edit{Drop: []string{"w"}}, codec); err != nil {
		t.Fatal(err)
	}
	if c := read(t, m, "/save/c"); c.Summary.Entries != 0 || c.Summary.Results != f.Summary.Results {
		t.Errorf("%+v", c.Summary)
	}
	if _, err := savepoints.Copy(t.Context(), m, f, "/save/d", savepoints.Edit{Rename: map[string]string{"w": "w"}}, codec); err != nil {
		t.Errorf("under its own uid: %v", err)
	}
	m.Remove("/save/d")
	for _, e := range []savepoints.Edit{{Rename: map[string]string{"none": "z"}}, {Drop: []string{"none"}}} {
		if _, err := savepoints.Copy(t.Context(), m, f, "/save/d", e, codec); err == nil || !strings.Contains(err.Error(), `no step "none"`) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// TestRenameToATakenUID names what is in the way; two may change places.
func TestRenameToATakenUID(t *testing.T) {
	m, one := saved(t)
	text := strings.Replace(exported(t, one), `"Tables":[{`, `"Tables":[{"UID":"v","Name":"t","Kind":1,"Type":"x","Version":1,"TTLNs":0,"MaxKeys":0},{`, 1)
	text = text[:strings.Index(text, `{"end"`)] + `{"end":{}}`
	if _, err := savepoints.Import(t.Context(), m, strings.NewReader(text), "/save/two", codec); err != nil {
		t.Fatal(err)
	}
	f := read(t, m, "/save/two")
	if _, err := savepoints.Copy(t.Context(), m, f, "/save/d", savepoints.Edit{Rename: map[string]string{"w": "v"}}, codec); err == nil || !strings.Contains(err.Error(), `w cannot become "v"`) {
		t.Errorf("%v", err)
	}
	if _, err := savepoints.Copy(t.Context(), m, f, "/save/d", savepoints.Edit{Rename: map[string]string{"w": "v", "v": "w"}}, codec); err != nil {
		t.Errorf("they change places: %v", err)
	}
}
