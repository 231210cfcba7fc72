package topic

import (
	"fmt"
	"slices"
	"strings"
)

// Template is a topic to publish to, with places {NAME} for columns of a row or for TemplateNames.
type Template struct {
	Texts   []string // before the first place, between them, behind the last
	Columns []string // the names in the places
}

// TemplateNames are the places that no column fills: the parts of a stream's name.
var TemplateNames = []string{"$gateway", "$pipeline", "$sink"}

// ParseTemplate reads a template. What it makes of a row is checked when there is one.
func ParseTemplate(text string) (*Template, error) {
	t, rest := &Template{}, text
	for {
		before, behind, found := strings.Cut(rest, "{")
		if strings.ContainsAny(before, "+#}\x00") {
			return nil, fmt.Errorf("the topic %q holds +, # or }: it is one to publish to", text)
		}
		t.Texts = append(t.Texts, before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(behind, "}")
		if !closed || name == "" {
			return nil, fmt.Errorf("the topic %q has a { without a name and }", text)
		}
		if name[0] == '$' && !slices.Contains(TemplateNames, name) {
			return nil, fmt.Errorf("the topic %q has {%s}; besides columns there are {%s}", text, name, strings.Join(TemplateNames, "}, {"))
		}
		t.Columns = append(t.Columns, name)
		rest = after
	}
	if text == "" || text[0] == '$' {
		return nil, fmt.Errorf("the topic %q is empty or begins with $", text)
	}
	return t, nil
}

// Filter matches every topic that the template makes: a level with a place in it is +.
func (t *Template) Filter() string {
	levels := strings.Split(strings.Join(t.Texts, "\x00"), "/")
	for i, level := range levels {
		if strings.Contains(level, "\x00") {
			levels[i] = "+"
		}
	}
	return strings.Join(levels, "/")
}
