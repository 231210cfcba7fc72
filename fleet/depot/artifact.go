package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/uplink/bucket"
)

// Cut reads an artifact and tells its size, sha256 and pieces. What it is for, and its compatibility, are the caller's to say.
func Cut(r io.Reader, chunkBytes int64) (a document.Artifact, err error) {
	if chunkBytes < document.ChunkBytesMin || chunkBytes > document.ChunkBytesMax {
		return a, fmt.Errorf("pieces of %d bytes, want %d to %d", chunkBytes, document.ChunkBytesMin, document.ChunkBytesMax)
	}
	a.ChunkBytes = chunkBytes
	whole, piece := sha256.New(), make([]byte, chunkBytes)
	for {
		n, err := io.ReadFull(r, piece)
		if n > 0 {
			whole.Write(piece[:n])
			a.Bytes += int64(n)
			a.Chunks = append(a.Chunks, shaOf(piece[:n]))
		}
		if len(a.Chunks) > document.ChunksMax {
			return a, fmt.Errorf("more than %d pieces of %d bytes: take larger ones", document.ChunksMax, chunkBytes)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return a, err
		}
	}
	if a.Bytes == 0 {
		return a, errors.New("the artifact is empty")
	}
	a.SHA256 = hex.EncodeToString(whole.Sum(nil))
	return a, nil
}

// Upload is how far an upload is.
type Upload struct {
	Pieces, Done, There int   // There were in the store already
	Bytes               int64 // sent
}

const (
	uploadsAtOnce = 4
	uploadTries   = 6
)

// uploadWait is how long the first repeat waits; each next one twice that.
var uploadWait = time.Second

// Upload puts the pieces of an artifact that the store has not. A repeat goes on where the one before was cut off. again: all of them, also those that are there; somebody may have put
// something else under their names. tell, if not nil, hears how far it is, from one goroutine at a time.
func (d Depot) Upload(ctx context.Context, from io.ReaderAt, a *document.Artifact, again bool, tell func(Upload)) (Upload, error) {
	u := Upload{Pieces: len(a.Chunks)}
	lengths := map[string]int64{} // of those that are missing
	offsets := map[string]int64{}
	for i, sha := range a.Chunks {
		lengths[sha], offsets[sha] = a.Length(i), int64(i)*a.ChunkBytes
	}
	total := len(lengths) // pieces that are alike are one object
	u.Pieces = total
	if !again {
		err := bucket.Each(ctx, d.Bucket, Prefix+"chunk/", func(o bucket.Object) error {
			if n, err := Parse(o.Name); err == nil && lengths[n.SHA] == o.Bytes && o.Bytes > 0 {
				delete(lengths, n.SHA)
			}
			return nil
		})
		if err != nil {
			return u, fmt.Errorf("list what is there: %w", err)
		}
	}
	u.There = total - len(lengths)
	u.Done = u.There
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
		todo  = make(chan string)
	)
	for range uploadsAtOnce {
		wg.Go(func() {
			for sha := range todo {
				n, err := d.putPiece(ctx, from, sha, offsets[sha], lengths[sha])
				mu.Lock()
				if err != nil && first == nil {
					first = err
					cancel()
				}
				if err == nil {
					u.Done++
					u.Bytes += n
					if tell != nil {
						tell(u)
					}
				}
				mu.Unlock()
			}
		})
	}
	sent := map[string]bool{}
feed:
	for _, sha := range a.Chunks { // in their order: a gateway that has begun already finds the first ones first
		if _, missing := lengths[sha]; !missing || sent[sha] {
			continue
		}
		sent[sha] = true
		select {
		case todo <- sha:
		case <-ctx.Done():
			break feed
		}
	}
	close(todo)
	wg.Wait()
	if first == nil {
		first = ctx.Err() // the caller's: ours is cancelled with first alone
	}
	return u, first
}

// putPiece sends a piece, and sends it again.
func (d Depot) putPiece(ctx context.Context, from io.ReaderAt, sha string, offset, length int64) (int64, error) {
	b := make([]byte, length)
	if n, err := from.ReadAt(b, offset); int64(n) < length {
		return 0, fmt.Errorf("read piece at %d: %w", offset, err)
	}
	if shaOf(b) != sha {
		return 0, fmt.Errorf("piece at %d: the file was changed meanwhile", offset)
	}
	wait := uploadWait
	for try := 1; ; try++ {
		err := d.Bucket.Put(ctx, Chunk(sha), b)
		if err == nil {
			return length, nil
		}
		if try == uploadTries || ctx.Err() != nil {
			return 0, fmt.Errorf("put piece %.12s: %w", sha, err)
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Verify reads every piece of an artifact, and the whole.
func (d Depot) Verify(ctx context.Context, a *document.Artifact, tell func(done, of int)) error {
	whole := sha256.New()
	for i, sha := range a.Chunks {
		b, err := d.Get(ctx, sha)
		if err != nil {
			return err
		}
		if int64(len(b)) != a.Length(i) {
			return fmt.Errorf("piece %d: %w: %d bytes, want %d", i+1, ErrOther, len(b), a.Length(i))
		}
		whole.Write(b)
		if tell != nil {
			tell(i+1, len(a.Chunks))
		}
	}
	if sum := hex.EncodeToString(whole.Sum(nil)); sum != a.SHA256 {
		return fmt.Errorf("%w: the pieces together have the sha256 %s, want %s", ErrOther, sum, a.SHA256)
	}
	return nil
}
