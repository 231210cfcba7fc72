package pebblekv

import "github.com/weirstream/weir/pipeline/state"

// hotShare of the memory is for the hot entries of the tables; the rest is the store's.
const hotShare = 4

// OpenPool makes an empty store and the pool of large tables over it. MemoryBytes is what both may hold together.
func OpenPool(o Options) (*DB, *state.Pool, error) {
	hot := o.MemoryBytes / hotShare
	o.MemoryBytes -= hot
	db, err := Open(o)
	if err != nil {
		return nil, nil, err
	}
	return db, state.NewPool(db, hot), nil
}
