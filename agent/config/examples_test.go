package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline/plan"
)

const configsDir = "../../configs"

// planHash is left out of the golden files: it follows the canonical form of expressions.
var planHash = regexp.MustCompile(`plan [0-9a-f]{12}`)

func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(configsDir + "/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, ".test.yaml") }) // cases of weir test
	return files
}

func parseFile(t *testing.T, file string) (*node, []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var problems plan.Problems
	root := tree(file, data, &problems)
	if root == nil || len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	return root, data
}

// TestExamplesAreAccepted: by the reader and by the schema.
func TestExamplesAreAccepted(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, file := range exampleFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			root, data := parseFile(t, file)
			c, err := ParseWith(filepath.Base(file), data, func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(configsDir, path)) })
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range c.Pipelines {
				if p.Graph == nil {
					t.Errorf("pipeline %s has no graph", p.Name)
				}
			}
			for _, failure := range check(schema, plain(root), "") {
				t.Error(failure)
			}
			var explained strings.Builder
			for _, p := range c.Pipelines {
				explained.WriteString(plan.Explain(&p.Spec, p.Graph))
			}
			for _, w := range c.Warnings {
				explained.WriteString("warning: " + w.String() + "\n")
			}
			golden(t, "testdata/explain/"+strings.TrimSuffix(filepath.Base(file), ".yaml")+".golden", planHash.ReplaceAllString(explained.String(), "plan HASH"))
		})
	}
}

// TestReferenceConfigShowsEverySetting: configs/weir.yaml has each setting, with its default.
func TestReferenceConfigShowsEverySetting(t *testing.T) {
	root, _ := parseFile(t, configsDir+"/weir.yaml")
	var walk func(path string, list []*setting, nodes []*node)
	walk = func(path string, list []*setting, nodes []*node) {
		for _, s := range list {
			var values []*node
			for _, n := range nodes {
				for _, e := range n.entries {
					if e.key.text == s.key {
						values = append(values, e.value)
					}
				}
			}
			if len(values) == 0 {
				t.Errorf("%s%s is not shown", path, s.key)
				continue
			}
			shown := s.fallback == "" || s.required || s.children != nil
			for _, v := range values {
				shown = shown || v.text == s.fallback
			}
			if !shown {
				t.Errorf("%s%s: the default %s is not shown", path, s.key, s.fallback)
			}
			if s.children != nil {
				walk(path+s.key+".", s.children, below(values, s.many))
			}
		}
	}
	walk("", top.section.list, []*node{root})
}

// below gives the objects in a value that repeats them.
func below(values []*node, many string) []*node {
	var out []*node
	for _, v := range values {
		switch {
		case many == "names":
			for _, e := range v.entries {
				out = append(out, e.value)
			}
		case many == "list":
			out = append(out, v.items...)
		default:
			out = append(out, v)
		}
	}
	return out
}

// TestDefaultsAreInRange: each default of the table is accepted by its own setting, and Default is complete.
func TestDefaultsAreInRange(t *testing.T) {
	c, err := Parse("empty.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.StateDir.Value != "/var/lib/weir" || c.API.Socket != "/var/lib/weir/weir.sock" || c.Security.FileRoot.Value != "/var/lib/weir-files" ||
		c.Journal.MaxBytes != 1<<30 || c.Log.Level != "info" || !c.Journal.Compress {
		t.Errorf("defaults: %+v", c)
	}
	var checkpoint Checkpoint
	checkpointObject.section.absent(&checkpoint)
	var restart Restart
	restartObject.section.absent(&restart)
	if checkpoint.Interval.Seconds() != 10 || checkpoint.Retained != 3 || checkpoint.RebaseRatio != 2 || checkpoint.TolerableFailures != -1 ||
		restart.BackoffMultiplier != 1.5 || restart.Strategy != "exponential-delay" {
		t.Errorf("defaults: %+v %+v", checkpoint, restart)
	}
}

func TestDocumentsAreThoseOfTheTable(t *testing.T) {
	golden(t, "../../docs/config.md", Reference())
	golden(t, "../../docs/flink-names.md", FlinkNames())
	golden(t, "testdata/schema.golden.json", string(Schema()))
}
