package codec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// spDrawn draws messages of a few nodes and devices, many of them with holes, unknown aliases and deaths.
func spDrawn(t *rapid.T) (topics []string, payloads [][]byte) {
	next := map[string]int{}
	for range rapid.IntRange(1, 60).Draw(t, "messages") {
		edge := rapid.SampledFrom([]string{"E", "F"}).Draw(t, "edge")
		kind := rapid.SampledFrom([]string{"NBIRTH", "NDATA", "NDATA", "NDATA", "DBIRTH", "DDATA", "DDATA", "DDEATH", "NDEATH", "NCMD", "DCMD"}).Draw(t, "kind")
		topic := "G/" + kind + "/" + edge
		if kind[0] == 'D' {
			topic += "/" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "device")
		}
		if kind == "NBIRTH" {
			next[edge] = 0
		}
		seq := next[edge] & 255
		next[edge]++
		if rapid.IntRange(0, 9).Draw(t, "hole") == 0 {
			next[edge]++
		}
		var metrics []spMetric
		for range rapid.IntRange(0, 4).Draw(t, "metrics") {
			i := rapid.IntRange(1, 4).Draw(t, "metric")
			m := spMetric{name: fmt.Sprint("m", i), alias: uint64(i), typ: typeInt64, field: valueLong, number: uint64(rapid.IntRange(0, 9).Draw(t, "value"))}
			if !strings.Contains(kind, "BIRTH") && rapid.Bool().Draw(t, "by alias") {
				m.name, m.typ = "", 0
			}
			metrics = append(metrics, m)
		}
		if kind[1:] == "DEATH" || kind == "NBIRTH" {
			metrics = append(metrics, long("bdSeq", typeUInt64, uint64(rapid.IntRange(0, 1).Draw(t, "bdSeq"))))
		}
		p := spPayload(uint64(1000+len(topics)), seq, metrics...)
		if rapid.IntRange(0, 15).Draw(t, "cut") == 0 {
			p = p[:rapid.IntRange(0, len(p)).Draw(t, "at")]
		}
		topics, payloads = append(topics, topic), append(payloads, p)
	}
	return topics, payloads
}

// saveInto applies what changed to a table.
func saveInto(t testing.TB, d *Sparkplug, table map[string]string) {
	t.Helper()
	if err := d.Save(func(key, val []byte) error {
		if val == nil {
			delete(table, string(key))
		} else {
			table[string(key)] = string(val)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// crashes feeds the messages to a decoder that is saved and loaded anew now and then; keep decides which entries survive.
func crashes(t testing.TB, perMetric bool, topics []string, payloads [][]byte, every int, keep func(key string) bool) (rows []string, wishes []Wish) {
	n, table := newSpNode(t, perMetric), map[string]string{}
	for i := range topics {
		if every > 0 && i%every == every-1 {
			saveInto(t, n.d, table)
			n.d = newSpNode(t, perMetric).d
			for key, val := range table {
				if keep(key) {
					if err := n.d.Load([]byte(key), []byte(val)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		rows = append(rows, n.send(topics[i], payloads[i])...)
	}
	return rows, n.wishes
}

func TestSparkplugGoesOnAfterARestore(t *testing.T) {
	all := func(string) bool { return true }
	rapid.Check(t, func(rt *rapid.T) {
		topics, payloads := spDrawn(rt)
		perMetric := rapid.Bool().Draw(rt, "per metric")
		want, wished := crashes(t, perMetric, topics, payloads, 0, all)
		got, again := crashes(t, perMetric, topics, payloads, rapid.IntRange(1, 9).Draw(rt, "every"), all)
		if !slices.Equal(want, got) || !slices.Equal(wished, again) {
			rt.Fatalf("restored:\n%s\nundisturbed:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestSparkplugPlantedLossOfStateIsFound: a kind of entry that is not restored shows.
func TestSparkplugPlantedLossOfStateIsFound(t *testing.T) {
	type drawn struct {
		topics   []string
		payloads [][]byte
	}
	draw := rapid.Custom(func(t *rapid.T) drawn { a, b := spDrawn(t); return drawn{a, b} })
	for name, kind := range map[string]byte{"sequence": nodeEntry, "aliases": birthEntry} {
		found := false
		for seed := 0; seed < 200 && !found; seed++ {
			c := draw.Example(seed)
			want, _ := crashes(t, false, c.topics, c.payloads, 0, nil)
			got, _ := crashes(t, false, c.topics, c.payloads, 3, func(key string) bool { return key[0] != kind })
			found = !slices.Equal(want, got)
		}
		if !found {
			t.Errorf("%s: the loss goes unnoticed", name)
		}
	}
}

// FuzzSparkplug: no payload makes the decoder panic; what it takes is JSON, and its state survives a restart.
func FuzzSparkplug(f *testing.F) {
	birth := spPayload(1000, 0, long("bdSeq", typeUInt64, 7), double("temp", 20.5), spMetric{name: "n", alias: 3, typ: 3, field: valueInt, number: 9})
	f.Add("G/NBIRTH/E", birth, "G/NDATA/E", spPayload(1, 1, spMetric{alias: 3, field: valueInt, number: 5}))
	f.Add("G/DBIRTH/E/D", spPayload(1, 1, spMetric{name: "a", typ: 33, field: valueBytes, raw: []byte("a\x00")}), "G/DDATA/E/D", []byte{8, 128, 128})
	f.Add("STATE/x", []byte("{}"), "G/NDEATH/E", spPayload(0, -1))
	f.Fuzz(func(t *testing.T, topic string, first []byte, then string, second []byte) {
		n, table := newSpNode(t, len(first)%2 == 0), map[string]string{}
		n.send(topic, first)
		saveInto(t, n.d, table)
		restored := newSpNode(t, len(first)%2 == 0)
		restored.pos = n.pos
		for key, val := range table {
			if err := restored.d.Load([]byte(key), []byte(val)); err != nil {
				t.Fatal(err)
			}
		}
		if want, got := n.send(then, second), restored.send(then, second); !slices.Equal(want, got) {
			t.Fatalf("%q, restored %q", want, got)
		}
	})
}

// FuzzSparkplugState: an entry is refused or survives a round.
func FuzzSparkplugState(f *testing.F) {
	n, table := newSpNode(f, false), map[string]string{}
	n.send("G/NBIRTH/E", spPayload(1000, 0, long("bdSeq", typeUInt64, 7), spMetric{name: "n", alias: 3, typ: 3, field: valueInt, number: 9}))
	saveInto(f, n.d, table)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		f.Add([]byte(key), []byte(table[key]))
	}
	f.Fuzz(func(t *testing.T, key, val []byte) {
		d := NewSparkplug(nil, 0, false, Default())
		if d.Load(key, val) != nil || len(key) == 0 || key[0] != birthEntry {
			return
		}
		for _, n := range d.nodes {
			for device, b := range n.tables {
				again := NewSparkplug(nil, 0, false, Default())
				if err := again.Load([]byte("b"+n.key+"\x00"+device), b.encode()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestSparkplugFlippedBits: no flip and no cut makes the decoder panic.
func TestSparkplugFlippedBits(t *testing.T) {
	whole := spPayload(1000, 1, long("bdSeq", typeUInt64, 7), double("temp", 20.5), spMetric{name: "a", typ: 33, field: valueBytes, raw: []byte("a\x00b\x00")},
		spMetric{name: "b", typ: 32, field: valueBytes, raw: []byte{3, 0, 0, 0, 0xa0}, unwanted: true})
	for _, topic := range []string{"G/NBIRTH/E", "G/NDATA/E"} {
		for i := range whole {
			for bit := range 8 {
				flipped := slices.Clone(whole)
				flipped[i] ^= 1 << bit
				newSpNode(t, bit%2 == 0).send(topic, flipped)
			}
			newSpNode(t, false).send(topic, whole[:i])
		}
	}
}
