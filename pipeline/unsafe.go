package pipeline

import "unsafe"

// unsafeString views bytes that are never written again as a string.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
