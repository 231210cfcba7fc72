// Package portable shows that a gateway's state belongs to no processor: a pipeline moves between builds for arm64, armv7 and amd64, by savepoints
// and by its bare state directory, and makes what it would have made where it was. The foreign builds are those that `make cross` makes; they run
// under qemu-user.
//
// `go test` moves it a few times, WEIR_CRASH=long through every pair of processors.
package portable
