package central

import (
	"context"
	"fmt"
	"sync"
)

const (
	// aheadRequests and aheadBytes bound what is asked for before its turn: enough that a line with 200 ms of way is full at 10 Mbit/s, and little enough that one of 16 kbit/s
	// answers each request in the time of one. Memory is aheadBytes, or one object when that is larger.
	aheadRequests = 16
	aheadBytes    = 512 << 10
)

// asked is an object that was asked for, or found in scratch.
type asked struct {
	ref   Ref
	found bool // in scratch
	body  []byte
	err   error
	done  chan struct{}
}

// pieces gives the content of each piece in order, from scratch or the store, from where it is kept in scratch. Requests run ahead of their turn; all have ended on return.
func (f *Fetcher) pieces(ctx context.Context, got *Fetched, refs []Ref, each func(i int, plain []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	requests := aheadRequests
	if f.plant.oneByOne {
		requests = 1
	}
	var queue []*asked
	bytes, next := uint64(0), 0
	for i := range refs {
		for next < len(refs) && (len(queue) == 0 || len(queue) < requests && bytes+refs[next].Bytes <= aheadBytes) {
			a := &asked{ref: refs[next], done: make(chan struct{})}
			queue, bytes, next = append(queue, a), bytes+a.ref.Bytes, next+1
			b, err := got.scratch.Read(spoolName(KindObject, a.ref.SHA))
			if err == nil && check(b, a.ref.SHA) == nil {
				a.body, a.found = b, true
				close(a.done)
				continue
			}
			running.Go(func() {
				defer close(a.done)
				a.body, a.err = f.get(ctx, NamesOf(f.Gateway).Of(KindObject, a.ref.SHA), int64(a.ref.Bytes))
			})
		}
		a := queue[0]
		<-a.done
		queue, bytes = queue[1:], bytes-a.ref.Bytes
		if a.err != nil {
			return a.err
		}
		plain, err := got.codec.open(a.body, a.ref, got.unseal)
		if err != nil {
			return fmt.Errorf("object %s: %w", NamesOf(f.Gateway).Of(KindObject, a.ref.SHA), err)
		}
		if !a.found {
			if err := got.scratch.Write(spoolName(KindObject, a.ref.SHA), a.body); err != nil {
				return fmt.Errorf("keep what was fetched: %w", err)
			}
		}
		if err := each(i, plain); err != nil {
			return err
		}
	}
	return nil
}

const (
	// objectBytesMax is what a piece takes as stored: incompressible, and encrypted.
	objectBytesMax = pieceBytesMax + 1<<20
	// indexBytesMax and manifestBytesMax are those of the largest that are read.
	indexBytesMax    = 16 << 20
	manifestBytesMax = manifestMax + 1<<16
	// smallBytesMax is for heads and claims.
	smallBytesMax = 1 << 16
	// refsTotalMax bounds the references of an upload, and those that a collection keeps in memory: 128 GiB of full pieces.
	refsTotalMax = 1 << 20
)

// bytesMaxOf is how large an object of a kind may be.
func bytesMaxOf(k Kind) int64 {
	switch k {
	case KindObject:
		return objectBytesMax
	case KindRecords:
		return recordsBytesMax + recordsHeadMax + 1<<20 // incompressible, and encrypted
	case KindIndex:
		return indexBytesMax
	case KindManifest:
		return manifestBytesMax
	}
	return smallBytesMax
}

// checkRefs refuses references that no uploader makes, before anything is asked for.
func checkRefs(refs []Ref) error {
	if len(refs) > refsTotalMax {
		return fmt.Errorf("%w: %d references, at most %d are possible", ErrDamaged, len(refs), refsTotalMax)
	}
	for _, r := range refs {
		if r.Bytes > objectBytesMax || r.Size > pieceBytesMax {
			return fmt.Errorf("%w: object %s of %d bytes, %d unpacked, is said to be there", ErrDamaged, r.SHA, r.Bytes, r.Size)
		}
	}
	return nil
}
