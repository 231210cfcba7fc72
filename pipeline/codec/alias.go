package codec

import "unsafe"

// view is b as a string without a copy: payloads, and buffers handed over, are never written again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf is s as bytes without a copy, for reading only.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
