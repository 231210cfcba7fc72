package whole

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// handLoopMain is what somebody would write by hand for the one question, without any of the promises: handloop RECORDING.
// It reads a line, finds the payload, extracts the four fields, filters, updates the map and prints windows that are over.
func handLoopMain(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 256<<10)
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	defer out.Flush()
	type key struct {
		device string
		window int64
	}
	type sum struct {
		n    int64
		temp float64
	}
	windows := map[key]*sum{}
	names := map[string]string{}
	emitted := int64(-1)
	emit := func(upTo int64) {
		var due []key
		for k := range windows {
			if k.window < upTo {
				due = append(due, k)
			}
		}
		slices.SortFunc(due, func(a, b key) int {
			if a.window != b.window {
				return int(a.window - b.window)
			}
			return bytes.Compare([]byte(a.device), []byte(b.device))
		})
		for _, k := range due {
			s := windows[k]
			fmt.Fprintf(out, "{\"device\":%q,\"window_start\":%d,\"window_end\":%d,\"n\":%d,\"mean\":%v,\"revision\":0}\n", k.device, k.window*1000, (k.window+1)*1000, s.n, s.temp/float64(s.n))
			delete(windows, k)
		}
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			break
		}
		at := bytes.Index(line, []byte(`"payload":"`))
		if at < 0 {
			continue
		}
		payload := line[at+len(`"payload":"`):]
		ts, _ := strconv.ParseInt(string(after(payload, `\"ts\":`)), 10, 64)
		device := after(payload, `\"device\":\"`)
		temperature, err1 := strconv.ParseFloat(string(after(payload, `\"temperature\":`)), 64)
		humidity, err2 := strconv.ParseFloat(string(after(payload, `\"humidity\":`)), 64)
		if err1 != nil || err2 != nil || humidity >= 75 {
			continue
		}
		name, ok := names[string(device)]
		if !ok {
			name = string(device)
			names[name] = name
		}
		k := key{name, ts / 1000}
		s := windows[k]
		if s == nil {
			if k.window-1 > emitted {
				emitted = k.window - 1
				emit(emitted)
			}
			s = &sum{}
			windows[k] = s
		}
		s.n++
		s.temp += temperature
	}
	emit(1 << 60)
	return nil
}

// after gives what stands between a mark and the next comma, quote or brace.
func after(b []byte, mark string) []byte {
	at := bytes.Index(b, []byte(mark))
	if at < 0 {
		return nil
	}
	b = b[at+len(mark):]
	for i, c := range b {
		if c == ',' || c == '\\' || c == '}' {
			return b[:i]
		}
	}
	return b
}
