package state_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"testing"

	"github.com/weirstream/weir/pipeline/state"
)

// TestLoadChangedGoesToTheNextCheckpoint: all of it, in either backend, whatever the kind, past max_keys, and with the times that it had. What Load takes does not.
func TestLoadChangedGoesToTheNextCheckpoint(t *testing.T) {
	large := largeMaker(t)
	for name, make := range map[string]func(state.Spec) *state.Table{"memory": state.New, "large": large} {
		for _, kind := range []state.Kind{state.Value, state.Map, state.List} {
			for _, ttl := range []int64{0, 1000} {
				for _, changed := range []bool{true, false} {
					t.Run(fmt.Sprint(name, kind, ttl, changed), func(t *testing.T) {
						table := make(state.Spec{Name: "t", Kind: kind, Type: "x", Version: 2, TTL: ttl, MaxKeys: 2})
						written := map[string]string{}
						for i := range 5 {
							key, sub, val := fmt.Appendf(nil, "k%d", i), []byte(nil), fmt.Appendf(nil, "%c%d", 1, i)
							switch kind {
							case state.Map:
								sub = []byte{byte(i)}
							case state.List:
								sub = binary.BigEndian.AppendUint64(nil, uint64(i))
							}
							if ttl > 0 {
								val = binary.BigEndian.AppendUint64(val, uint64(100+i))
							}
							load := table.Load
							if changed {
								load = table.LoadChanged
								written[string(key)+"/"+string(sub)] = string(val)
							}
							if err := load(key, sub, val); err != nil {
								t.Fatal(err)
							}
						}
						if table.Len() != 5 {
							t.Errorf("%d entries, want 5", table.Len())
						}
						table.Lock()
						f := table.Freeze()
						table.Unlock()
						got := map[string]string{}
						err := f.Encode(func(key, sub, val []byte, deleted bool) error {
							got[string(key)+"/"+string(sub)] = string(val)
							return nil
						})
						if err != nil || !maps.Equal(got, written) {
							t.Errorf("the checkpoint has %q, want %q, %v", got, written, err)
						}
						f.Commit()
					})
				}
			}
		}
	}
}
