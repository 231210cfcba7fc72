//go:build !nos3

package objectsink

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadBuckets: each is named with what to do, at the rate of kinds of failure, and all is put once it is mended.
func TestBadBuckets(t *testing.T) {
	var g *gateway
	dial := func(t *testing.T, change func(*bucket.S3)) uplink.Endpoint {
		g = startGateway(t)
		change(&g.s3)
		return g.Connect(t, "a")
	}
	sick := uplinktest.Sick{Only: http.MethodPut, Type: "application/xml",
		Server: func(t *testing.T) string { g = startGateway(t); return g.Addr },
		Dial: func(t *testing.T, url string) uplink.Endpoint {
			g.s3.Endpoint = url
			return g.Connect(t, "a")
		}}
	s3Error := func(code, message string) string {
		return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>` + message + `</Message><Resource>/bucket-1/x</Resource><RequestId>1</RequestId></Error>`
	}
	const later = "bucket-2"
	bad := append(sick.Nowhere(t), []uplinktest.Bad{
		{Name: "missing bucket", Want: []string{later, "NoSuchBucket", "make it there"},
			Dial: func(t *testing.T) uplink.Endpoint { return dial(t, func(c *bucket.S3) { c.Bucket = later }) },
			Heal: func(t *testing.T) { uplinktest.Must(t, g.MakeBucket(later)) }},
		{Name: "wrong secret", Want: []string{"SignatureDoesNotMatch", "credentials_file"}, Secret: "sesame",
			Dial: func(t *testing.T) uplink.Endpoint {
				return dial(t, func(c *bucket.S3) { g.keys(t, c.CredentialsFile, "sesame") })
			},
			Heal: func(t *testing.T) { g.keys(t, g.s3.CredentialsFile, rig.S3Secret) }},
		{Name: "not allowed", Want: []string{"AccessDenied", "credentials_file"},
			Dial: func(t *testing.T) uplink.Endpoint { return dial(t, func(c *bucket.S3) { c.CredentialsFile = "" }) }},
		sick.Answers("full store", http.StatusInsufficientStorage, s3Error("XMinioStorageFull", "Storage backend has reached its minimum free drive threshold."),
			"bucket-1", "XMinioStorageFull", "minimum free drive threshold", "make room there"),
		sick.Answers("over its quota", http.StatusBadRequest, s3Error("XMinioAdminBucketQuotaExceeded", "Bucket quota exceeded"), "XMinioAdminBucketQuotaExceeded", "make room there"),
		sick.Answers("busy", http.StatusServiceUnavailable, s3Error("SlowDown", "Please reduce your request rate"), "SlowDown"),
		sick.Answers("broken", http.StatusInternalServerError, s3Error("InternalError", "We encountered an internal error"), "InternalError"),
		sick.Answers("garbage with 200", http.StatusOK, "<html>welcome</html>", "no ETag", "not S3's"),
		sick.Answers("garbage with 502", http.StatusBadGateway, "<html>upstream down</html>", "502"),
	}...)
	data := t.TempDir()
	bad = append(bad, uplinktest.OnFullDisk(filepath.Join(data, "data"), 1<<20, func(t *testing.T) uplink.Endpoint {
		g = gatewayIn(t, data)
		return g.Connect(t, "a")
	}, "bucket-1"))
	bad = append(bad, uplinktest.Secured{CA: "give its CA in ca",
		Server: sick.Server,
		Dial: func(t *testing.T, addr, ca string) uplink.Endpoint {
			g.s3.Endpoint, g.s3.CAFile, g.s3.Dates = "https://"+addr, ca, uplinktest.Dates
			return g.Connect(t, "a")
		}}.Certificates()...)
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
