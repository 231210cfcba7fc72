package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
)

// shelf holds the letters of two pipelines in memory.
type shelf map[string][]api.DeadLetter

func (s shelf) Pipelines(context.Context) ([]string, error) { return []string{"p", "q"}, nil }
func (s shelf) Close() error                                { return nil }
func (s shelf) Requeue(context.Context, string, api.RequeueQuery) (api.RequeueAnswer, error) {
	return api.RequeueAnswer{}, nil
}

func (s shelf) DeadLetters(_ context.Context, name string, q api.DeadQuery, f func(api.DeadLetter) error) error {
	n := 0
	for _, l := range s[name] {
		if l.Seq <= q.After || n == q.Limit {
			continue
		}
		n++
		if err := f(l); err != nil {
			return err
		}
	}
	return nil
}

func shelfOf(n int) shelf {
	s := shelf{}
	for i := 1; i <= n; i++ {
		letter := fmt.Sprintf(`{"step":"$source/s","reason":"decode","position":%d,"payload":"<%d>"}`, i, i)
		if i%2 == 0 {
			letter = fmt.Sprintf(`{"step":"$source/s","reason":"decode","position":%d,"payload_b64":"/wA="}`, i)
		}
		for _, name := range []string{"p", "q"} {
			s[name] = append(s[name], api.DeadLetter{Seq: uint64(2 * i), KeptMs: int64(i), Letter: json.RawMessage(letter)})
		}
	}
	return s
}

// TestExportGoesOn: an export that was cut at any byte of its last lines ends as one that was not, with each letter once; over several pages.
func TestExportGoesOn(t *testing.T) {
	c := &cobra.Command{}
	c.SetContext(t.Context())
	s := shelfOf(api.DeadLettersMax + 7)
	path := filepath.Join(t.TempDir(), "out.jsonl")
	if n, err := exportTo(c, s, []string{"p", "q"}, api.DeadQuery{}, path); err != nil || n != 2*(api.DeadLettersMax+7) {
		t.Fatal(n, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(whole), `"payload":"\u003c1\u003e"`) || strings.Count(string(whole), `"payload_b64":"/wA="`) != api.DeadLettersMax+6 {
		t.Errorf("the payloads are not those of the letters: %s", whole[:300])
	}
	for cut := len(whole); cut > len(whole)-300; cut-- {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := exportTo(c, s, []string{"p", "q"}, api.DeadQuery{}, path); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != string(whole) {
			t.Fatalf("cut at %d: %d bytes, want %d", cut, len(got), len(whole))
		}
	}
	for _, foreign := range []string{"dear diary\n", "no line", `{"a":1}` + "\n"} {
		if err := os.WriteFile(path, []byte(foreign), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := exportTo(c, s, []string{"p"}, api.DeadQuery{}, path); err == nil {
			t.Errorf("%q was taken for an export", foreign)
		}
		if got, _ := os.ReadFile(path); string(got) != foreign {
			t.Errorf("%q was touched", foreign)
		}
	}
}

func TestDeadletterUsage(t *testing.T) {
	c := newCLI(t, cliConfig)
	for args, want := range map[string]string{
		"deadletter requeue p":                "give sequence numbers, or --all",
		"deadletter requeue p 1 --all":        "give sequence numbers, or --all",
		"deadletter requeue p x":              `sequence number is "x"`,
		"deadletter ls p --since yesterday":   "time is \"yesterday\"",
		"deadletter export --until 31.1.2026": "time is \"31.1.2026\"",
	} {
		if code, _, message := c.run(strings.Fields(args)...); code != exitUsage || !strings.Contains(message, want) {
			t.Errorf("%s: %d %q", args, code, message)
		}
	}
	if code, _, message := c.run("deadletter", "ls", "p"); code != exitFailed || !strings.Contains(message, "no agent has run here") {
		t.Errorf("%d %q", code, message)
	}
}
