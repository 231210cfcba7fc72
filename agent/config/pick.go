package config

import (
	"fmt"

	"github.com/weirstream/weir/pipeline/suggest"
)

// Pick gives the pipeline of that name; "" means the only one. how tells, in the error, where a name is given.
func (c *Config) Pick(name, how string) (*Pipeline, error) {
	var names []string
	for _, p := range c.Pipelines {
		if p.Name.Value == name || name == "" && len(c.Pipelines) == 1 {
			return p, nil
		}
		names = append(names, p.Name.Value)
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s has no pipeline", c.File)
	case name == "":
		return nil, fmt.Errorf("%s has several pipelines; choose one with %s: %v", c.File, how, names)
	}
	near := ""
	if s := suggest.Nearest(name, names); s != "" {
		near = fmt.Sprintf("; did you mean %q?", s)
	}
	return nil, fmt.Errorf("%s has no pipeline %q; it has %v%s", c.File, name, names, near)
}
