package config

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

var objectsObject = &object[plan.ObjectsTarget]{place: func(o *plan.ObjectsTarget, at plan.Pos) { o.Pos = at }, section: section{what: "objects", list: []*setting{
	set("directory", at(func(o *plan.ObjectsTarget) *plan.Text { return &o.Directory }).is(textKind{what: "a path below security.file_root", allowed: "a path such as archive, below security.file_root, without . or ..", check: checkFilePath}), "Directory below security.file_root. Either this or endpoint and bucket."),
	set("endpoint", at(func(o *plan.ObjectsTarget) *plan.Text { return &o.Endpoint }).is(textKind{what: "a URL such as https://s3.example.com", pattern: "^https?://"}),
		"S3 endpoint. It must honour If-None-Match and If-Match on PUT, which is tried when the sink starts."),
	set("bucket", at(func(o *plan.ObjectsTarget) *plan.Text { return &o.Bucket }).is(textKind{what: "the name of a bucket", pattern: "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", allowed: "3 to 63 of a-z, 0-9, . and -", check: checkBucket}), "Bucket. It is not made."),
	set("prefix", at(func(o *plan.ObjectsTarget) *plan.Text { return &o.Prefix }).is(textKind{what: "a prefix such as site-17/raw", allowed: "a prefix such as site-17/raw, without a slash at its ends", check: checkFilePath}), "Put before every name. Left out: none."),
	set("region", at(func(o *plan.ObjectsTarget) *string { return &o.Region }).is(stringKind{wordKind}), "Region that requests are signed for.", byDefault("us-east-1")),
	set("credentials_file", at(func(o *plan.ObjectsTarget) *string { return &o.CredentialsFile }).is(fileKind),
		"File in the form of ~/.aws/credentials; its section [default] is read, again after a refusal. Left out: anonymous.", secretFile()),
	set("ca", at(func(o *plan.ObjectsTarget) *string { return &o.CAFile }).is(fileKind), "CA certificates (PEM). Left out: the system's."),
	set("format", at(func(o *plan.ObjectsTarget) *plan.Text { return &o.Format }).is(choiceText{choiceKind{words: []string{"json", "csv"}}}),
		"json: JSON lines, gaps among them. csv: a header and a record for each row, by RFC 4180; the columns of the rows have to be known.", byDefault("json")),
	set("compression", at(func(o *plan.ObjectsTarget) *string { return &o.Compression }).is(choiceKind{words: []string{"zstd", "gzip", "none"}}), "How an object is compressed.", byDefault("zstd")),
	set("batch", at(func(o *plan.ObjectsTarget) *plan.ObjectsTarget { return o }).is(objectsBatch), "Size of an object."),
	set("timeout", at(func(o *plan.ObjectsTarget) *int64 { return &o.TimeoutNs }).is(nanoseconds{durationKind{least: 100 * time.Millisecond, most: time.Hour}}), "How long a batch may take: two puts.", byDefault("60s")),
}}, check: func(r *reader, n *node, o *plan.ObjectsTarget) {
	s3 := o.Endpoint.Value != "" || o.Bucket.Value != ""
	switch {
	case o.Directory.Value != "" && s3:
		r.problems.Add(n.pos, "", "directory, or endpoint and bucket", "objects has a directory and an S3 bucket")
	case o.Directory.Value == "" && (o.Endpoint.Value == "" || o.Bucket.Value == ""):
		r.problems.Add(n.pos, "", "directory, or endpoint and bucket", "objects does not say where to")
	}
}}

var objectsBatch = &object[plan.ObjectsTarget]{section: section{what: "batch", list: []*setting{
	set("records", at(func(o *plan.ObjectsTarget) *int { return &o.BatchRecords }).is(intKind{1, 1000000}), "Most results of an object.", byDefault("10000")),
	set("bytes", at(func(o *plan.ObjectsTarget) *int64 { return &o.BatchBytes }).is(sizeKind{least: 1 << 10, most: 64 << 20}), "Most bytes of an object, before compression. So much is held in memory.", byDefault("4MiB")),
}}}

func checkBucket(name string) string {
	if len(name) < 3 || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || strings.Trim(name, ".-") != name {
		return "this is no name of a bucket"
	}
	return ""
}

// completeObjects makes the path absolute.
func completeObjects(o *plan.ObjectsTarget, root string) {
	if o.Path = o.Directory.Value; o.Path != "" && !filepath.IsAbs(o.Path) {
		o.Path = filepath.Join(root, o.Path)
	}
}

func (c *Config) checkObjects(o *plan.ObjectsTarget, problems *plan.Problems) {
	if at := o.Directory; at.Value != "" && checkFilePath(at.Value) == "" && !within(o.Path, c.Security.FileRoot.Value) {
		problems.Add(at.Pos, "", "object sinks write below security.file_root "+quote(c.Security.FileRoot.Value), "the path %s lies elsewhere", quote(at.Value))
	}
	if at := o.Prefix; strings.HasPrefix(at.Value, "/") {
		problems.Add(at.Pos, "", "a prefix such as site-17/raw", "the prefix %s begins with a slash", quote(at.Value))
	}
	c.checkURL(o.Endpoint, "https://s3.example.com", "credentials_file", problems)
}
