package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const withCredential = `
state_dir: /var/lib/weir
brokers:
  plant: {url: "ssl://broker.example.com:8883", username: gw, password_file: "credential:mqtt.password"}
sources:
  s: {mqtt: {broker: plant, topic: "a/b"}}
`

// TestCredentials: a name becomes the path at which the service manager put the file; one that is missing is named with its line.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	missing := func(c *Config) bool {
		return strings.Contains(c.Warnings.Error(), `credential "mqtt.password" is missing`) && strings.Contains(c.Warnings.Error(), "/etc/weir/credentials/mqtt.password")
	}
	read := func() *Config {
		t.Helper()
		return mustParse(t, withCredential)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	c := read()
	if want := filepath.Join(dir, "weir_mqtt.password"); c.Brokers[0].PasswordFile != want || !missing(c) {
		t.Errorf("%s, warnings %v", c.Brokers[0].PasswordFile, c.Warnings)
	}
	for _, name := range []string{"weir_mqtt.password", "mqtt.password"} { // the directory's, then that of a drop-in, which counts more
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := read(); c.Brokers[0].PasswordFile != path || missing(c) {
			t.Errorf("%s, warnings %v", c.Brokers[0].PasswordFile, c.Warnings)
		}
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if c := read(); c.Brokers[0].PasswordFile != "/etc/weir/credentials/mqtt.password" {
		t.Error(c.Brokers[0].PasswordFile)
	}
	for _, name := range []string{"", "..", "a/b", "../../shadow", ".hidden", "a b"} {
		_, err := Parse("weir.yaml", []byte(strings.ReplaceAll(withCredential, "mqtt.password", name)))
		if err == nil || !strings.Contains(err.Error(), "weir.yaml:4:") || !strings.Contains(err.Error(), "no name of a credential") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
