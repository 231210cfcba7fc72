//go:build nos3

package objectsink

import "errors"

// errWithout is what a build for small devices says to a sink in S3.
var errWithout = errors.New("this weir was built without S3 (-tags nos3); objects in a directory work")

func openS3(*S3) (store, error) { return nil, errWithout }
