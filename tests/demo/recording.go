package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// reading is a payload of the recording.
type reading struct {
	Sensor string  `json:"sensor"`
	Metric string  `json:"metric"`
	Seq    int64   `json:"seq"`
	TS     int64   `json:"ts"` // ms
	V      float64 `json:"v"`
}

func (r *reading) key() string { return r.Sensor + "/" + r.Metric }

// message is one delivery, as it is published.
type message struct {
	topic   string
	payload string
	reading reading
}

// recording is the whole data set in the order of arrival.
type recording struct {
	messages []message
	accepted []reading // without the copies, by the reference's duplicates.csv
	firstMs  int64     // begin of the window of the oldest event time
	lastMs   int64     // newest event time
	spanMs   int64     // how much later each further pass is: whole windows, longer than the data and every delay
}

// windowMs is the size of the demo's windows.
const windowMs = 15 * 60_000

// seqPerPass keeps the sequence numbers of passes apart: a copy is known by topic and seq.
const seqPerPass = 1_000_000

func loadRecording(dir string) (*recording, error) {
	f, err := os.Open(filepath.Join(dir, "arrivals.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	defer f.Close()
	copies, err := loadCSV(dir, "duplicates.csv")
	if err != nil {
		return nil, err
	}
	copied := map[string]bool{}
	for _, row := range copies {
		copied[row["arrival_n"]] = true
	}
	r := &recording{}
	first := int64(1) << 62
	for s := bufio.NewScanner(f); s.Scan(); {
		var d struct {
			N              int
			Topic, Payload string
		}
		if err := json.Unmarshal(s.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("read recording: %w", err)
		}
		m := message{topic: d.Topic, payload: d.Payload}
		if err := json.Unmarshal([]byte(d.Payload), &m.reading); err != nil {
			return nil, fmt.Errorf("read payload %d: %w", d.N, err)
		}
		r.messages = append(r.messages, m)
		if !copied[fmt.Sprint(d.N)] {
			r.accepted = append(r.accepted, m.reading)
		}
		first, r.lastMs = min(first, m.reading.TS), max(r.lastMs, m.reading.TS)
	}
	const hour = 3_600_000
	r.firstMs = first / windowMs * windowMs
	r.spanMs = (r.lastMs-first)/hour*hour + 24*hour
	return r, nil
}

// unshift gives the pass that a time belongs to, and the time as it is in the recording.
func (r *recording) unshift(ms int64) (pass, original int64) {
	pass = (ms - r.firstMs) / r.spanMs
	return pass, ms - pass*r.spanMs
}

// at is the n-th message of a pass: later by so many spans, with sequence numbers of its own.
func (r *recording) at(pass int64, n int) (topic string, payload []byte, err error) {
	m := &r.messages[n]
	if pass == 0 {
		return m.topic, []byte(m.payload), nil
	}
	later := m.reading
	later.TS += pass * r.spanMs
	later.Seq += pass * seqPerPass
	payload, err = json.Marshal(later)
	return m.topic, payload, err
}

// closing is a message that belongs to no sensor: behind the last pass it moves event time on, so that every window ends.
func (r *recording) closing(pass int64) (topic string, payload []byte, err error) {
	payload, err = json.Marshal(reading{Sensor: closingSensor, Metric: "none", Seq: pass, TS: r.lastMs + pass*r.spanMs + 12*3_600_000})
	return "road/" + closingSensor + "/none", payload, err
}

const closingSensor = "end-of-demo"

// loadCSV reads a table of known answers.
func loadCSV(dir, name string) (rows []map[string]string, err error) {
	f, err := os.Open(filepath.Join(dir, "expected", name))
	if err != nil {
		return nil, fmt.Errorf("open known answers: %w", err)
	}
	defer f.Close()
	table, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read known answers %s: %w", name, err)
	}
	for _, line := range table[1:] {
		row := map[string]string{}
		for i, column := range table[0] {
			row[column] = line[i]
		}
		rows = append(rows, row)
	}
	return rows, nil
}
