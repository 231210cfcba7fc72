package bucket

import "context"

type bytesMaxKey struct{}

// WithBytesMax bounds what a Get with this ctx takes into memory, where the caller knows how large an object may be: a larger one is ErrTooLarge, and is not read to its end.
// BytesMax holds whatever is said.
func WithBytesMax(ctx context.Context, n int64) context.Context {
	return context.WithValue(ctx, bytesMaxKey{}, n)
}

// BytesMaxOf is how many bytes a Get with this ctx may give. It is for those who implement one.
func BytesMaxOf(ctx context.Context) int64 {
	if n, ok := ctx.Value(bytesMaxKey{}).(int64); ok {
		return min(n, BytesMax)
	}
	return BytesMax
}
