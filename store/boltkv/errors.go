package boltkv

import "errors"

var (
	// ErrLocked: another process holds the file. It is not damaged.
	ErrLocked = errors.New("database is locked by another process")
	// ErrCorrupt: the file is not a whole bbolt database. It was not mapped and nothing was changed; SetAside moves it away.
	ErrCorrupt = errors.New("database is corrupt")
)
