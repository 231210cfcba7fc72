// Package cases runs the field cases (testdata/SOURCE.md): failures that users of other gateways reported, each with the right
// result. What a recording can express goes through the built `weir replay` with the config that a user would write; the rest runs
// the built agent against a scripted broker and a scripted upstream.
package cases
