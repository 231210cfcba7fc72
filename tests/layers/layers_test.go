// Package layers holds the import rules of the house (ARCHITECTURE.md). A new row is a reviewable design change.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weirstream/weir/"

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// forbidden: a package below From imports nothing below any of To.
var forbidden = []struct {
	From string
	To   []string
	Why  string
}{
	{"pipeline", []string{"store", "snapshot", "uplink", "agent", "boards"}, "the dataflow declares what it needs; agent joins"},
	{"snapshot", []string{"pipeline/exec", "agent", "uplink"}, "snapshot and engine speak pipeline types"},
	{"store", []string{"snapshot", "uplink", "agent", "pipeline/exec", "pipeline/ops", "pipeline/window", "pipeline/mqtt", "pipeline/plan"}, "what lies on flash knows no dataflow"},
	{"uplink", []string{"store", "snapshot", "agent", "pipeline/exec"}, "delivery knows a queue, not where it lies"},
	{"pipeline/topic", []string{"pipeline"}, "the rules of topics know nobody"},
	{"pipeline/plan", []string{"pipeline/mqtt"}, "the plan knows topics, no session"},
	{"pipeline/exec", []string{"pipeline/mqtt"}, "the engine knows a journal, no session"},
	{"boards", []string{"pipeline", "store", "snapshot", "uplink"}, "what is known of hardware knows nothing of weir; the config reads it"},
	{"fleet/strict", []string{"fleet", "pipeline", "store", "snapshot", "uplink", "boards"}, "a reader of JSON knows nobody"},
	{"fleet/signed", []string{"fleet/document", "pipeline", "store", "snapshot", "uplink", "boards"}, "signatures are asked before a document is read: who checks them cannot read one"},
	{"fleet/document", []string{"fleet/signed", "pipeline", "store", "snapshot", "uplink", "boards"}, "what documents say knows neither keys nor places"},
	{"fleet/pace", []string{"fleet/signed", "fleet/document", "fleet/depot", "fleet/rollout", "fleet/strict", "pipeline", "store", "snapshot", "uplink", "boards"}, "how long to wait is a function of numbers"},
	{"fleet/rollout", []string{"fleet/signed", "fleet/depot", "pipeline", "store", "snapshot", "uplink", "boards"}, "who decides about a roll-out knows neither keys nor places"},
	{"agent/boot", []string{"pipeline", "snapshot", "uplink", "boards", "store/log", "store/journal", "store/outbox", "agent/config", "agent/api", "agent/record", "agent/identity", "agent/upgrade/slots"}, "the helper is small, and runs as root"},
	{"store/disk", []string{"pipeline", "store/log"}, "the file system knows nobody"},
	{"agent/upgrade", []string{"pipeline", "snapshot", "uplink", "store/log", "store/journal", "store/outbox", "store/boltkv", "store/pebblekv", "agent/boot", "agent/config", "agent/api", "agent/record", "boards"}, "the helper outside the slots links it: files and documents are all it knows"},
	{"agent/bus", []string{"pipeline", "store", "snapshot", "uplink", "fleet", "agent", "boards"}, "a client of the system bus knows nobody"},
	{"agent/boot", []string{"agent/bus", "agent/upgrade/rauc"}, "the helper asks nobody"},
	{"fleet", []string{"pipeline", "store", "snapshot", "agent", "boards"}, "documents know nobody"},
	{"agent/channel", []string{"pipeline", "snapshot", "store/log", "store/journal", "store/outbox", "agent/config", "agent/api", "agent/upgrade", "agent/boot"}, "what a fleet says is judged here; who carries it out, agent joins"},
	{"store/log", []string{"store/journal", "store/outbox"}, "the format knows no use of it"},
}

// importers: only these packages (and their tests) import the library.
var importers = map[string][]string{
	"go.etcd.io/bbolt":                    {"store/boltkv", "uplink/receiver"},
	"github.com/cockroachdb/pebble":       {"store/pebblekv"},
	"github.com/minio/minio-go":           {"uplink/bucket", "tests"},
	"github.com/nats-io/nats.go":          {"uplink/nats", "tests"},
	"github.com/jackc/pgx":                {"uplink/postgres", "tests"},
	"github.com/eclipse/paho.mqtt.golang": {"pipeline/mqtt", "tests"},
}

func TestImportRules(t *testing.T) {
	for _, p := range packages(t) {
		name, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		for _, imp := range p.Imports {
			for _, broken := range violations(name, imp) {
				t.Errorf("%s imports %s: %s", name, imp, broken)
			}
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if broken := importerViolation(name, imp); broken != "" {
				t.Errorf("%s imports %s: %s", name, imp, broken)
			}
		}
	}
}

// TestRulesFindABreach plants breaches: rules that find nothing are no rules.
func TestRulesFindABreach(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"pipeline/exec", module + "store/log"},
		{"snapshot", module + "pipeline/exec"},
		{"uplink/httpsink", module + "store/outbox"},
		{"store/journal", module + "agent"},
		{"pipeline/topic", module + "pipeline/plan"},
		{"boards", module + "store/disk"},
		{"boards", module + "agent/config"},
		{"pipeline/plan", module + "pipeline/mqtt"},
		{"fleet/strict", module + "fleet/document"},
		{"fleet/signed", module + "fleet/document"},
		{"fleet/document", module + "fleet/signed"},
		{"fleet/signed", module + "store/disk"},
		{"fleet/rollout", module + "fleet/depot"},
		{"fleet/pace", module + "fleet/document"},
		{"agent/boot", module + "agent/config"},
		{"agent/upgrade/slots", module + "agent/boot"},
		{"agent/upgrade", module + "agent/config"},
		{"fleet/document", module + "store/disk"},
		{"fleet/depot", module + "store/disk"},
		{"agent/channel", module + "agent/config"},
	} {
		if len(violations(c.from, c.to)) == 0 {
			t.Errorf("%s importing %s is not found", c.from, c.to)
		}
	}
	if importerViolation("agent", "go.etcd.io/bbolt") == "" {
		t.Error("a second importer of bbolt is not found")
	}
	if importerViolation("uplink/httpsink", "github.com/minio/minio-go/v7/pkg/credentials") == "" {
		t.Error("a second importer of minio-go is not found")
	}
	if importerViolation("agent", "github.com/nats-io/nats.go/jetstream") == "" {
		t.Error("a second importer of nats.go is not found")
	}
	if importerViolation("pipeline/ops", "github.com/eclipse/paho.mqtt.golang/packets") == "" {
		t.Error("a second importer of paho is not found")
	}
}

func violations(from, imp string) (broken []string) {
	to, ours := strings.CutPrefix(imp, module)
	if !ours {
		return nil
	}
	if below(to, "agent") && !below(from, "agent") && !below(from, "tests") {
		broken = append(broken, "nothing imports agent but agent and tests")
	}
	for _, rule := range forbidden {
		if !below(from, rule.From) {
			continue
		}
		for _, t := range rule.To {
			if below(to, t) {
				broken = append(broken, rule.Why)
			}
		}
	}
	return broken
}

func importerViolation(from, imp string) string {
	for lib, allowed := range importers {
		if !below(imp, lib) {
			continue
		}
		if !slices.ContainsFunc(allowed, func(a string) bool { return below(from, a) }) {
			return "only " + strings.Join(allowed, ", ") + " may import it"
		}
	}
	return ""
}

func below(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

func packages(t *testing.T) (all []goPackage) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
