package disk

// zeroChunk is how much Preallocate writes at once.
const zeroChunk = 256 << 10

// Preallocate writes size zero bytes and syncs them: the blocks are then allocated and written, so that overwriting them later
// changes no metadata of the file system. (fallocate alone leaves "unwritten" extents, whose conversion ext4 journals page by
// page: twice the device bytes.) Durable on return, but for the file's name.
func Preallocate(f File, size int64) error {
	zero := make([]byte, min(size, zeroChunk))
	for off := int64(0); off < size; off += int64(len(zero)) {
		if _, err := f.WriteAt(zero[:min(int64(len(zero)), size-off)], off); err != nil {
			return err
		}
	}
	return f.Sync()
}
