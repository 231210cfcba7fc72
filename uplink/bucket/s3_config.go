package bucket

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/certtime"
)

// S3 names a bucket.
type S3 struct {
	Endpoint string // https://host[:port]
	Region   string
	Bucket   string
	Prefix   string // of all names, without a slash at its ends; may be empty
	// CredentialsFile has the form of ~/.aws/credentials; its section [default] is read, again after a refusal. Empty: anonymous.
	CredentialsFile string
	CAFile          string // PEM; empty: the system's
	DialTimeout     time.Duration
	DenyPrivate     bool // refuse addresses of this device and of private networks
	Dates           certtime.Now
}

// Validate names the first field that is out of range.
func (c *S3) Validate() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("S3 endpoint is %q, want https://host or https://host:port", c.Endpoint)
	case u.User != nil:
		return errors.New("S3 endpoint holds a password; use credentials_file")
	case c.Bucket == "":
		return errors.New("S3 bucket is empty")
	case strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/"):
		return fmt.Errorf("S3 prefix is %q, want it without a slash at its ends", c.Prefix)
	case c.DialTimeout <= 0:
		return fmt.Errorf("S3 dial timeout is %s, allowed is more than 0", c.DialTimeout)
	}
	return nil
}
