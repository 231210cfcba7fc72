package snapshot

import (
	"context"
	"errors"
)

// errOrder: whoever fills an import broke its contract.
var errOrder = errors.New("BUG: imported entries do not rise")

// importInto writes what fill gives as one sorted run.
func importInto(ctx context.Context, out *merged, fill func(add AddEntry) error) error {
	var last entry
	n := 0
	err := fill(func(uid, table string, key, sub, val []byte) error {
		if n++; n%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if len(key)+len(sub)+len(val) > entryBytesMax {
			return ErrEntryTooLarge
		}
		e := entry{uid: []byte(uid), table: []byte(table), key: key, sub: sub, val: val}
		if n > 1 && last.compare(&e) >= 0 {
			return errOrder
		}
		last.uid, last.table = append(last.uid[:0], uid...), append(last.table[:0], table...)
		last.key, last.sub = append(last.key[:0], key...), append(last.sub[:0], sub...)
		return out.add(&e)
	})
	if err != nil {
		return err
	}
	return out.end()
}
