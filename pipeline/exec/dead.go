package exec

import (
	"encoding/json"
	"sort"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

// DeadLetter is the JSON form of a dead letter, in the dead-letter stream and in `weir deadletter`.
type DeadLetter struct {
	Step      string   `json:"step"`
	Reason    string   `json:"reason"`
	Detail    string   `json:"detail,omitempty"`
	Position  uint64   `json:"position"`
	Topic     string   `json:"topic,omitempty"`
	Payload   string   `json:"payload,omitempty"`
	Raw       []byte   `json:"payload_b64,omitempty"` // instead of Payload when that is not UTF-8
	Truncated int      `json:"truncated_bytes,omitempty"`
	Fields    []string `json:"fields,omitempty"` // of a row that a step refused, as text
}

// deadPayloadMax bounds what a dead letter keeps of a payload, in bytes.
const deadPayloadMax = 64 << 10

// orderDead sorts the dead letters of a batch into the total order: place, then plan order of the step, then emission.
// order gives a step's number in the plan.
func orderDead(dead []pipeline.DeadRow, order map[string]int) {
	less := func(i, j int) bool {
		c := dead[i].At.Compare(dead[j].At)
		return c < 0 || c == 0 && order[dead[i].Step] < order[dead[j].Step]
	}
	for i := 1; i < len(dead); i++ { // one task's are mostly in order
		if less(i, i-1) {
			sort.SliceStable(dead, less)
			return
		}
	}
}

// encodeDead makes the bytes of a dead letter; they depend on the row alone.
func encodeDead(d *pipeline.DeadRow) []byte {
	l := DeadLetter{Step: d.Step, Reason: d.Reason, Detail: d.Detail, Position: uint64(d.Pos), Topic: d.Topic}
	raw := d.Raw
	if len(raw) > deadPayloadMax {
		l.Truncated = len(raw) - deadPayloadMax
		raw = raw[:deadPayloadMax]
	}
	if utf8.Valid(raw) {
		l.Payload = string(raw)
	} else {
		l.Raw = raw
	}
	for _, v := range d.Row.Slots {
		l.Fields = append(l.Fields, valueText(v))
	}
	b, err := json.Marshal(&l)
	if err != nil {
		panic("BUG: encode dead letter: " + err.Error()) // strings and numbers only
	}
	return b
}
