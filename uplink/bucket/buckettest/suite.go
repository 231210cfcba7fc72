package buckettest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirstream/weir/uplink/bucket"
)

// Run holds a bucket to what bucket.Bucket promises. The bucket is empty below dir, which ends with a slash.
func Run(t *testing.T, b bucket.Bucket, dir string) {
	t.Helper()
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	is := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	holds := func(name, want string) string {
		t.Helper()
		body, version, err := b.Get(ctx, dir+name)
		if err != nil || string(body) != want || version == "" {
			t.Fatalf("get %s: %q, version %q, %v, want %q", name, body, version, err, want)
		}
		return version
	}
	page, err := b.List(ctx, dir+"no/such", "")
	if err != nil || len(page) != 0 {
		t.Fatalf("list what is not there: %v, %v", page, err)
	}
	must("prepare", b.Prepare(ctx, dir))
	_, _, err = b.Get(ctx, dir+"a/none")
	is("get what is not there", err, bucket.ErrNotFound)
	must("delete what is not there", b.Delete(ctx, dir+"a/none"))

	must("create", b.Create(ctx, dir+"a/1", []byte("one")))
	is("create again", b.Create(ctx, dir+"a/1", []byte("other")), bucket.ErrExists)
	holds("a/1", "one")
	must("put", b.Put(ctx, dir+"a/2", []byte("two")))
	must("put over a torn one", b.Put(ctx, dir+"a/2", []byte("two, whole")))
	holds("a/2", "two, whole")
	must("put nothing", b.Put(ctx, dir+"a/0", nil))
	holds("a/0", "")

	_, err = b.Replace(ctx, dir+"h", "00000000000000000000000000000000", []byte("x"))
	is("replace what is not there", err, bucket.ErrChanged)
	v1, err := b.Replace(ctx, dir+"h", "", []byte("v1"))
	must("replace none", err)
	_, err = b.Replace(ctx, dir+"h", "", []byte("x"))
	is("replace none that is there", err, bucket.ErrChanged)
	if v := holds("h", "v1"); v != v1 {
		t.Fatalf("version is %s, replace gave %s", v, v1)
	}
	v2, err := b.Replace(ctx, dir+"h", v1, []byte("v2"))
	must("replace", err)
	_, err = b.Replace(ctx, dir+"h", v1, []byte("x"))
	is("replace an old version", err, bucket.ErrChanged)
	if v := holds("h", "v2"); v != v2 {
		t.Fatalf("version is %s, replace gave %s", v, v2)
	}
	_, _, err = b.GetNewer(ctx, dir+"h", v2)
	is("get what has not changed", err, bucket.ErrUnchanged)
	if body, v, err := b.GetNewer(ctx, dir+"h", v1); err != nil || string(body) != "v2" || v != v2 {
		t.Fatalf("get what has changed: %q, version %q, %v", body, v, err)
	}
	if body, v, err := b.GetNewer(ctx, dir+"h", ""); err != nil || string(body) != "v2" || v != v2 {
		t.Fatalf("get without a version: %q, version %q, %v", body, v, err)
	}
	_, _, err = b.GetNewer(ctx, dir+"a/none", v2)
	is("get the news of what is not there", err, bucket.ErrNotFound)
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	must("put much", b.Put(ctx, dir+"large", large))
	holds("large", string(large))

	// Byte order, not that of directories: '-' comes before '/'.
	want := []string{"l-x", "l/1", "l/2", "l/3/4", "l0"}
	for _, n := range []string{"l/3/4", "l/1", "l0", "l-x", "l/2"} {
		must("put", b.Put(ctx, dir+n, []byte(n)))
	}
	var got []string
	must("list", bucket.Each(ctx, b, dir+"l", func(o bucket.Object) error {
		if name := o.Name[len(dir):]; name != "large" {
			got = append(got, name)
			if o.Bytes != int64(len(name)) {
				return fmt.Errorf("%s has %d bytes", name, o.Bytes)
			}
		}
		return nil
	}))
	if !slices.Equal(got, want) {
		t.Fatalf("list gives %v, want %v", got, want)
	}
	page, err = b.List(ctx, dir+"l/", dir+"l/1")
	if err != nil || len(page) != 2 || page[0].Name != dir+"l/2" || page[1].Name != dir+"l/3/4" {
		t.Fatalf("list after l/1: %v, %v", page, err)
	}
	must("delete", b.Delete(ctx, dir+"l/1", dir+"l/none", dir+"l/3/4"))
	page, err = b.List(ctx, dir+"l/", "")
	if err != nil || len(page) != 1 || page[0].Name != dir+"l/2" {
		t.Fatalf("list what was left: %v, %v", page, err)
	}
}

// RunPages has more objects than a page: few enough to be quick, for one bucket.
func RunPages(t *testing.T, b bucket.Bucket, dir string) {
	t.Helper()
	ctx := t.Context()
	var want []string
	for i := range bucket.PageMax + 5 {
		name := fmt.Sprintf("%sp/%04d", dir, i)
		want = append(want, name)
		if err := b.Put(ctx, name, nil); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	if err := bucket.Each(ctx, b, dir+"p/", func(o bucket.Object) error { got = append(got, o.Name); return nil }); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%d names, %v, want %d", len(got), err, len(want))
	}
	if err := b.Delete(ctx, want...); err != nil {
		t.Fatal(err)
	}
	if page, err := b.List(ctx, dir+"p/", ""); err != nil || len(page) != 0 {
		t.Fatalf("%d are left, %v", len(page), err)
	}
}
