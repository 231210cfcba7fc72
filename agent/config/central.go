//go:build !nocentral

package config

import (
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/uplink/central"
)

// centralSettings are what the top of the file has for it.
var centralSettings = []*setting{
	set("central", at(func(c *Config) *Central { return &c.Central }).is(centralObject),
		"Checkpoints are kept off this device too, so that another one can go on (docs/central.md). Left out: they stay on this device."),
}

// encryptBuilt tells whether this binary has age. Tests change it.
var encryptBuilt = central.EncryptBuilt

var centralObject = &object[Central]{place: func(c *Central, at plan.Pos) { c.Pos = at }, section: section{what: "central", list: []*setting{
	set("url", at(func(c *Central) *plan.Text { return &c.URL }).is(textKind{what: "file:///PATH or s3://BUCKET/PREFIX", pattern: "^(file|s3)://"}),
		"Where to: file:///PATH, a directory that is not on this device, or s3://BUCKET or s3://BUCKET/PREFIX. Gateways may share it: each has its own names below it.", required()),
	set("endpoint", at(func(c *Central) *plan.Text { return &c.Endpoint }).is(textKind{what: "a URL such as https://s3.example.com", pattern: "^https?://"}),
		"S3 endpoint. It must honour If-None-Match and If-Match on PUT, which is tried.", byDefault("https://s3.amazonaws.com")),
	set("region", at(func(c *Central) *string { return &c.Region }).is(stringKind{wordKind}), "Region that requests are signed for.", byDefault("us-east-1")),
	set("credentials_file", at(func(c *Central) *string { return &c.CredentialsFile }).is(fileKind),
		"File in the form of ~/.aws/credentials; its section [default] is read, again after a refusal. Left out: anonymous.", secretFile()),
	set("ca", at(func(c *Central) *string { return &c.CAFile }).is(fileKind), "CA certificates (PEM). Left out: the system's."),
	set("interval", at(func(c *Central) *time.Duration { return &c.Interval }).is(durationKind{least: time.Second, most: 7 * 24 * time.Hour}),
		"Each pipeline's newest checkpoint is uploaded at most so often. What a dead device loses is at least that old.", byDefault("1m")),
	set("bandwidth", at(func(c *Central) *int64 { return &c.Bandwidth }).is(sizeKind{least: 64, most: 1 << 32}), "Most bytes per second. Left out: no limit but that of link."),
	set("link", at(func(c *Central) *plan.Text { return &c.Link }).is(textKind{what: "the name of a link"}),
		"The link it sends over, from the section links, with the priority low: results go first. Left out: none."),
	set("rebase_ratio", at(func(c *Central) *float64 { return &c.RebaseRatio }).is(floatKind{1, 1000}),
		"All of the state is uploaded anew when the changes have so many times its size. Smaller: restores fetch less, uploads cost more: 1 + 1/rebase_ratio of what changed.", byDefault("6")),
	set("retained", at(func(c *Central) *int { return &c.Retained }).is(intKind{1, 1000}), "Uploads of a pipeline that are kept.", byDefault("2")),
	set("timeout", at(func(c *Central) *time.Duration { return &c.Timeout }).is(durationKind{least: time.Second, most: time.Hour}),
		"How long a request may take; one that moves data a second more per KiB.", byDefault("30s")),
	set("fence_poll", at(func(c *Central) *time.Duration { return &c.FencePoll }).is(durationKind{least: time.Second, most: 24 * time.Hour}),
		"How often it is looked, give or take a fifth, whether another device has taken this gateway's place (docs/replacement.md).", byDefault("30s")),
	set("encrypt", at(func(c *Central) *Central { return c }).is(encryptObject), "Encryption of state, results and plan by age (age-encryption.org)."),
	set("sign", at(func(c *Central) *Central { return c }).is(signObject), "The key that uploads are signed with."),
}}, check: func(r *reader, _ *node, c *Central) { c.checkAddress(r.problems) }}

var encryptObject = &object[Central]{section: section{what: "encrypt", list: []*setting{
	set("recipients", at(func(c *Central) *[]plan.Text { return &c.Recipients }).is(textsKind{textKind{what: "a public key such as age1…", pattern: "^age1", allowed: "a public key as age-keygen prints it", check: checkRecipient}}), "Public keys: whoever has one of the private keys can restore. They are not needed on this device."),
}}, check: func(r *reader, n *node, c *Central) {
	switch {
	case len(c.Recipients) == 0:
		r.problems.Add(n.pos, "", "recipients: a list of public keys such as age1…", "encrypt has no recipients")
	case !encryptBuilt:
		r.problems.Add(n.pos, "", "a weir that was built without the tag noage, or no encrypt", "encryption is not in this weir: it was built with the tag noage")
	}
}}

var signObject = &object[Central]{section: section{what: "sign", list: []*setting{
	set("key_file", at(func(c *Central) *string { return &c.KeyFile }).is(fileKind),
		"Private ed25519 key (PKCS 8, PEM). Left out: identity/key in state_dir, made at the first start. Its public key, which a restore trusts: weir central key.", secretFile()),
}}}

func checkRecipient(s string) string {
	if err := central.CheckRecipient(s); err != nil {
		return "this is no public key of age"
	}
	return ""
}

// checkAddress takes the URL apart.
func (c *Central) checkAddress(problems *plan.Problems) {
	const allowed = "file:///PATH or s3://BUCKET/PREFIX"
	at := c.URL
	if at.Value == "" {
		return
	}
	u, err := url.Parse(at.Value)
	switch {
	case err != nil || u.RawQuery != "" || u.Fragment != "":
		problems.Add(at.Pos, "", allowed, "%s is no address of a central store", quote(redact(at.Value)))
	case u.User != nil:
		problems.Add(at.Pos, "", "use credentials_file", "the URL holds a user name or password")
	case u.Scheme == "file":
		if c.Directory = u.Path; u.Host != "" || checkPath(u.Path) != "" || u.Path == "/" {
			problems.Add(at.Pos, "", "file:// and an absolute path, so three slashes: file:///mnt/central", "%s names no directory", quote(at.Value))
		}
	case u.Scheme == "s3":
		c.Bucket, c.Prefix = u.Host, strings.Trim(u.Path, "/")
		if checkBucket(c.Bucket) != "" || c.Prefix != "" && path.Clean(c.Prefix) != c.Prefix {
			problems.Add(at.Pos, "", "s3://BUCKET or s3://BUCKET/PREFIX, the bucket of 3 to 63 of a-z, 0-9, . and -", "%s names no bucket", quote(at.Value))
		}
	default:
		problems.Add(at.Pos, suggest.Nearest(u.Scheme, []string{"file", "s3"}), allowed, "the scheme %s is not file or s3", quote(u.Scheme))
	}
}

// checkCentral looks at what goes together.
func (c *Config) checkCentral(problems *plan.Problems) {
	o := &c.Central
	if o.Bucket != "" {
		c.checkURL(o.Endpoint, "https://s3.example.com", "credentials_file", problems)
	}
	if o.Directory != "" && (within(o.Directory, c.StateDir.Value) || within(c.StateDir.Value, o.Directory)) {
		problems.Add(o.URL.Pos, "", "a directory on another device, such as a mounted share", "the central store %s lies with state_dir %s: it would die with it", quote(o.Directory), quote(c.StateDir.Value))
	}
}

// centralUnknown has nothing to say: the setting is known.
var centralUnknown func(key string) string
