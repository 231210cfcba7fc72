// Package bus speaks as much of D-Bus as a client needs that calls methods, reads properties and waits for signals of system services (D-Bus Specification 0.43: message format, EXTERNAL authentication). It keeps nothing on flash.
//
// A Conn is for any number of goroutines. It is not mended: once the bus, or a write, has failed, every call ends with that error and the caller dials again. No call outlives its context. DESIGN.md has the goroutine and the bounds.
package bus
