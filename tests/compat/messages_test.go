package compat

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// message is one that the broker hands to the agent. The messages of an image lie in it: what is drawn here is for new images only.
type message struct {
	Topic   string `json:"topic"`
	Payload string `json:"payload"`
}

// epoch is the event time at which the messages begin.
const epoch = int64(1767225600000)

var words = []string{"on", "off", "idle", "fault", "warm-up"}

// drawMessages gives n messages: three kinds of devices whose clocks stray, out of order, some too late, a few that cannot be read.
func drawMessages(seed uint64, n int) (all []message) {
	r := rand.New(rand.NewPCG(seed, 1))
	pulses := map[string]int{}
	at := epoch
	for id := 1; id <= n; id++ {
		at += int64(r.IntN(1200))
		k := string(rune('a' + r.IntN(5)))
		if k == "e" && at/60_000%3 == 1 { // falls silent now and then
			k = "a"
		}
		ts := at - int64(r.IntN(900))
		if r.IntN(40) == 0 {
			ts -= int64(r.IntN(30_000))
		}
		switch draw := r.IntN(20); {
		case draw < 12:
			pulses[k] += r.IntN(40)
			v := float64(r.IntN(400)) / 10
			b, err := json.Marshal(map[string]any{"id": id, "ts": ts, "v": v, "n": pulses[k] % 1000, "w": words[r.IntN(len(words))], "ok": r.IntN(2) == 0})
			if err != nil {
				panic(err)
			}
			all = append(all, message{"a/" + k, string(b)})
		case draw < 16:
			all = append(all, message{"b/" + k, fmt.Sprintf(`{"id":%d,"ts":%d,"u":%d}`, id, ts, r.IntN(9))})
		case draw < 18:
			all = append(all, message{"c/" + k, fmt.Sprintf(`{"id":%d,"ts":%d,"r":%g}`, id, ts-int64(k[0])*100, float64(r.IntN(90))/4)})
		case draw < 19:
			all = append(all, message{"m/" + k, words[r.IntN(len(words))]})
		default:
			all = append(all, message{"a/" + k, fmt.Sprintf(`{"id":%d,"ts":`, id)}) // cut short: a dead letter
		}
	}
	return all
}
