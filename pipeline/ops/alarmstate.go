package ops

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// alarmPhase is where a key stands. A clear key has no entry.
type alarmPhase uint8

const (
	alarmClear   alarmPhase = 0
	alarmPending alarmPhase = 1
	alarmRaised  alarmPhase = 2
)

// alarmState is an entry of the table "alarm"; all but phase belong to a pending one.
type alarmState struct {
	phase    alarmPhase
	deadline int64 // elapsed ns
	time     int64 // event time of the row that began the hold
	value    pipeline.Value
}

// alarmPendingBytes is the fixed part of a pending entry; the text of the value follows.
const alarmPendingBytes = 1 + 8 + 8 + 1 + 8

func appendAlarm(dst []byte, s alarmState) []byte {
	dst = append(dst, byte(s.phase))
	if s.phase != alarmPending {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.deadline))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.time))
	dst = append(dst, byte(s.value.Kind))
	dst = binary.LittleEndian.AppendUint64(dst, s.value.Num)
	return append(dst, s.value.Str...)
}

// parseAlarm is the inverse of appendAlarm.
func parseAlarm(b []byte) (s alarmState, err error) {
	switch {
	case len(b) == 1 && alarmPhase(b[0]) == alarmRaised:
		return alarmState{phase: alarmRaised}, nil
	case len(b) >= alarmPendingBytes && alarmPhase(b[0]) == alarmPending && pipeline.Kind(b[17]) < pipeline.Error:
		return alarmState{
			phase:    alarmPending,
			deadline: int64(binary.LittleEndian.Uint64(b[1:])),
			time:     int64(binary.LittleEndian.Uint64(b[9:])),
			value: pipeline.Value{
				Kind: pipeline.Kind(b[17]), Num: binary.LittleEndian.Uint64(b[18:]), Str: string(b[alarmPendingBytes:]),
			},
		}, nil
	}
	return s, fmt.Errorf("%w: alarm entry of %d bytes", ErrState, len(b))
}
