//go:build nos3

package bucket

import "errors"

// errWithout is what a build for small devices says to a bucket in S3.
var errWithout = errors.New("this weir was built without S3 (-tags nos3); objects in a directory work")

// OpenS3 refuses.
func OpenS3(*S3) (Bucket, error) { return nil, errWithout }
