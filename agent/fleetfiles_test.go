//go:build !nocentral

package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestRedacted(t *testing.T) {
	text := `gateway: gw
brokers:
  b: {url: "ssl://user:pass@host:1", username: u, password_file: /etc/pw, token: abc}
sinks:
  - http:
      url: https://me:secret1@host/x
      token_file: /etc/token
      headers:
        X-Key: "secret2"
        Other: secret3
      batch: 5
  - http: {headers: {Authorization: "Bearer secret4"}}
api_key: secret5 # the old one was secret7
# secret8
name: "a # b" # secret9
password: "secret6"
`
	got := string(redacted([]byte(text)))
	for _, secret := range []string{"pass@", "abc", "secret1", "secret2", "secret3", "secret4", "secret5", "secret6", "secret7", "secret8", "secret9"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is left:\n%s", secret, got)
		}
	}
	for _, stays := range []string{"/etc/pw", "/etc/token", "username: u", "batch: 5", "gateway: gw", "a # b"} {
		if !strings.Contains(got, stays) {
			t.Errorf("%s is gone:\n%s", stays, got)
		}
	}
}

func TestLastLines(t *testing.T) {
	l := &lastLines{}
	for i := range 5000 {
		fmt.Fprintf(l, "line %d of many, all of which have some words in them\n", i)
	}
	got := string(l.bytes())
	if len(got) > lastLinesBytes || len(got) < lastLinesBytes/2 || !strings.HasPrefix(got, "line ") || !strings.HasSuffix(got, "line 4999 of many, all of which have some words in them\n") {
		t.Errorf("%d bytes, from %.20q", len(got), got)
	}
}

// TestRedactedIsQuoted: a config may be JSON.
func TestRedactedIsQuoted(t *testing.T) {
	text := `{"sinks": [{"http": {"url": "https://h/x", "headers": {"X-Auth": "secret1", "Other": "secret2"}, "batch": 5}}]}
"http":
  "headers":
    "X-Auth": secret3
    More: |
      secret4
  'headers' : {
    X: secret5,
    Y: secret6
  }
  batch: 5
`
	got := string(redacted([]byte(text)))
	for i := range 6 {
		if secret := fmt.Sprintf("secret%d", i+1); strings.Contains(got, secret) {
			t.Errorf("%s is left:\n%s", secret, got)
		}
	}
	if !strings.Contains(got, "  batch: 5") {
		t.Errorf("too much is gone:\n%s", got)
	}
}

// TestLedgerHoldsNoConfig: of a command that is under way the ledger has the whole text of a config, as one string.
func TestLedgerHoldsNoConfig(t *testing.T) {
	config := "sinks:\n  - http:\n      headers:\n        X-Auth: secret1\n        Y: \"sec ret2, and more\"\n"
	ledger, err := json.Marshal(map[string]any{"format": 1, "orders": []any{map[string]any{"id": "c1", "serial": 7, "command": map[string]any{"do": "apply", "config": config}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := string(withoutConfigs(ledger))
	if strings.Contains(got, "ret") || strings.Contains(got, "X-Auth") || !strings.Contains(got, `"c1"`) || !strings.Contains(got, "apply") {
		t.Errorf("%s", got)
	}
	if got := string(withoutConfigs(ledger[:len(ledger)-3])); strings.Contains(got, "ret") {
		t.Errorf("cut short: %s", got)
	}
}
