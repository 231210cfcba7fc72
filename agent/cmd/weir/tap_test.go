package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// TestTappedTextCannotActOnATerminal: topics and payloads come from whoever may publish.
func TestTappedTextCannotActOnATerminal(t *testing.T) {
	text := "bell \a, escape \x1b[2J, delete \x7f, C1 \u009b31m, right to left \u202e, zero width \u200b, tag \U000e0041, umlaut ä, 日本, smile 😀"
	line, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	got := escaped(line)
	for _, r := range string(got) {
		if !strconv.IsPrint(r) {
			t.Errorf("%U is printed", r)
		}
	}
	var back map[string]string
	if err := json.Unmarshal(got, &back); err != nil || back["text"] != text {
		t.Errorf("%s reads as %q, %v", got, back["text"], err)
	}
	if !strings.Contains(string(got), "ä, 日本, smile 😀") {
		t.Errorf("plain text was changed: %s", got)
	}
	if got := escaped([]byte("\"\xff\x9b\"")); string(got) != `"��"` {
		t.Errorf("no text: %q", got)
	}
}

func TestTapUsage(t *testing.T) {
	c := newCLI(t, cliConfig)
	c.want(exitUsage, "see weir tap --help", "tap", "p")
	c.want(exitUsage, "see weir tap --help", "tap")
	c.want(exitNotRunning, "no agent is running", "tap", "p", "f")
	c.want(exitNotRunning, "no agent is running", "tap", "p", "--sources")
	c.untouched()
}
