package codec

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// decodeLines gives each record of a payload as a JSON object, and what is wrong with those that are refused.
func decodeLines(t *testing.T, d Splitter, payload string) (records []string) {
	t.Helper()
	rest := []byte(payload)
	for len(rest) > 0 {
		var record []byte
		if record, rest = d.Next(rest); len(record) == 0 {
			break
		}
		slots := make([]pipeline.Value, 1)
		if err := d.Decode(record, slots); err != nil {
			records = append(records, "refused: "+err.Error())
			continue
		}
		records = append(records, slots[0].Str)
	}
	return records
}

func wantLines(t *testing.T, d Splitter, payload string, want ...string) {
	t.Helper()
	got := decodeLines(t, d, payload)
	if len(got) != len(want) {
		t.Fatalf("%q gives %q", payload, got)
	}
	for i := range want {
		if got[i] != want[i] && !(strings.HasPrefix(want[i], "refused: ") && strings.HasPrefix(got[i], want[i])) {
			t.Errorf("%q, record %d\n got  %s\n want %s", payload, i, got[i], want[i])
		}
	}
}

func TestInfluxLines(t *testing.T) {
	d := NewInflux(nil, 0, Default())
	wantLines(t, d, "weather,site=north temp=21.5,n=3i,u=18446744073709551615u,ok=t,s=\"a \\\"b\\\"\" 1767225600000000001",
		`{"measurement":"weather","site":"north","temp":21.5,"n":3,"u":18446744073709551615,"ok":true,"s":"a \"b\"","timestamp":1767225600000000001}`)
	wantLines(t, d, "# comment\n\na v=1\r\nb v=.5\nc v=5.\nd v=-007.25e1\n",
		`{"measurement":"a","v":1}`, `{"measurement":"b","v":0.5}`, `{"measurement":"c","v":5}`, `{"measurement":"d","v":-72.5}`)
	wantLines(t, d, `my\ m,a\,b=c\=d e\ f=9007199254740993i`, `{"measurement":"my m","a,b":"c=d","e f":9007199254740993}`)
	wantLines(t, d, "a v=nan\nb\nc v=1 x\nd v=9223372036854775808i\ne v=1 1 1\nf v=1e999\ng v=1i",
		"refused: ", "refused: ", "refused: ", "refused: ", "refused: ", "refused: ", `{"measurement":"g","v":1}`)
}

func TestInfluxFields(t *testing.T) {
	slots := make([]pipeline.Value, 4)
	fields := []Field{
		{Path: pipeline.Path{{Name: "temp"}}, Slot: 0, Kind: pipeline.Float}, {Path: pipeline.Path{{Name: "site"}}, Slot: 1},
		{Path: pipeline.Path{{Name: TimestampField}}, Slot: 2}, {Path: pipeline.Path{{Name: "none"}}, Slot: 3},
	}
	d := NewInflux(fields, -1, Default())
	if err := d.Decode([]byte("w,site=5 temp=3i 7"), slots); err != nil {
		t.Fatal(err)
	}
	if slots[0] != pipeline.FloatValue(3) || slots[1].Str != "5" || slots[1].Kind != pipeline.String || slots[2] != pipeline.IntValue(7) || !slots[3].IsNull() {
		t.Errorf("slots %v", slots)
	}
	for line, reason := range map[string]string{
		`w,site=a temp="x"`:        "declared float",
		`w,site=a site="b",temp=1`: "site: the name comes twice",
	} {
		if err := d.Decode([]byte(line), slots); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestCSVLines(t *testing.T) {
	d := NewCSV(nil, 0, []string{"ts", "device", "temp"}, ',', Default())
	wantLines(t, d, "1767225600000,d1,21.5\n1767225601000,\"d,2\", 22 \r\n\n3,,\n",
		`{"ts":1767225600000,"device":"d1","temp":21.5}`, `{"ts":1767225601000,"device":"d,2","temp":22}`, `{"ts":3,"device":null,"temp":null}`)
	wantLines(t, d, `9007199254740993,"5",true`, `{"ts":9007199254740993,"device":"5","temp":true}`)
	wantLines(t, d, "1,\"two\nlines\",\"3\"\n2,b,1", `{"ts":1,"device":"two\nlines","temp":"3"}`, `{"ts":2,"device":"b","temp":1}`)
	wantLines(t, d, "1,2\n1,2,3,4\n1,a\"b,3\n1,\xff,2\n1,nan,007", "refused: want 3 values (ts, device, temp), found 2", "refused: want 3 values", "refused: ", "refused: ", `{"ts":1,"device":"nan","temp":"007"}`)
	wantLines(t, d, "1,\"a \"\"b\"\"\nc\",3\n\"\",\"\"\"\",2", `{"ts":1,"device":"a \"b\"\nc","temp":3}`, `{"ts":"","device":"\"","temp":2}`)
	semicolons := NewCSV(nil, 0, []string{"a", "b"}, ';', Default())
	wantLines(t, semicolons, "1,5;2", `{"a":"1,5","b":2}`)
}

func TestCSVDeclared(t *testing.T) {
	slots := make([]pipeline.Value, 2)
	d := NewCSV([]Field{{Path: pipeline.Path{{Name: "a"}}, Slot: 0, Kind: pipeline.String}, {Path: pipeline.Path{{Name: "b"}}, Slot: 1, Kind: pipeline.Float}},
		-1, []string{"a", "b"}, ',', Default())
	if err := d.Decode([]byte("5, 7"), slots); err != nil || slots[0].Str != "5" || slots[1] != pipeline.FloatValue(7) {
		t.Errorf("%v %v", slots, err)
	}
	if err := d.Decode([]byte("5,x"), slots); err == nil || !strings.Contains(err.Error(), `field b: want a number, found "x"`) {
		t.Errorf("got %v", err)
	}
}

// fuzzLines: a decoder never panics, ends, and what it accepts is valid JSON that its own JSON decoder takes.
func fuzzLines(f *testing.F, make func(whole int) Splitter) {
	d, check := make(0), NewJSON(nil, 0, Default())
	f.Fuzz(func(t *testing.T, payload []byte) {
		rest := payload
		for len(rest) > 0 {
			record, more := d.Next(rest)
			if len(more) >= len(rest) {
				t.Fatalf("no progress: %q leaves %q", rest, more)
			}
			if rest = more; len(record) == 0 {
				break
			}
			var slots [1]pipeline.Value
			if d.Decode(record, slots[:]) != nil {
				continue
			}
			var again [1]pipeline.Value
			if err := check.Decode([]byte(slots[0].Str), again[:]); err != nil {
				t.Fatalf("%q became %s: %v", record, slots[0].Str, err)
			}
		}
	})
}

func FuzzInflux(f *testing.F) {
	f.Add([]byte("a,b=c d=1i,e=\"f\" 5\n# x\nq w=.5e3"))
	fuzzLines(f, func(whole int) Splitter { return NewInflux(nil, whole, Default()) })
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("1,\"a\n\"\"b\",3\n4,5,6\n"))
	fuzzLines(f, func(whole int) Splitter { return NewCSV(nil, whole, []string{"a", "b", "c"}, ',', Default()) })
}
