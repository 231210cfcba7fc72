package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline/suggest"
)

// start is where a pipeline begins.
type start struct{ at, file string }

// startKind is latest, earliest, or savepoint FILE.
type startKind struct{}

var startWords = choiceKind{words: []string{StartLatest, StartEarliest}}

func (startKind) label() string { return "latest, earliest, or savepoint FILE with an absolute path" }
func (startKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{startWords.schema(), map[string]any{"type": "string", "pattern": "^savepoint +/"}}}
}

func (startKind) reads(*start) {}
func (k startKind) read(r *reader, n *node, place any) {
	into := place.(*start)
	if n.shape != shapeScalar {
		r.wrong(n, k.label())
		return
	}
	word, file, _ := strings.Cut(n.text, " ")
	if slices.Contains(startWords.words, n.text) {
		into.at = n.text
		return
	}
	if word != StartSavepoint {
		r.problems.Add(n.pos, suggest.Nearest(n.text, startWords.words), "allowed are latest, earliest, savepoint FILE", "found %s", n.describe())
		return
	}
	file = strings.TrimSpace(file)
	if !filepath.IsAbs(file) {
		r.problems.Add(n.pos, "", "savepoint and an absolute path, as in savepoint /var/lib/weir/savepoints/NAME.savepoint", "found %s", n.describe())
		return
	}
	into.at, into.file = StartSavepoint, filepath.Clean(file)
}
