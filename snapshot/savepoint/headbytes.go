package savepoint

import "fmt"

// Encode gives a head as it stands in a file.
func (h Head) Encode() []byte {
	h.Format, h.Version = Format, Version
	return appendMap(appendHead(nil, majorTag, selfDescribed), h.fields())
}

// DecodeHead reads what Encode gave.
func DecodeHead(b []byte) (h Head, err error) {
	r := reader{b: b}
	if r.head(majorTag) != selfDescribed {
		r.fail(errForm)
	}
	r.members(h.fields())
	if err := r.end(); err != nil {
		return h, fmt.Errorf("%w: head: %w", ErrCorrupt, err)
	}
	return h, h.check()
}
