package plan

import "maps"

// Behaviours are the versions of what each kind of step does, by its kind. The map is the caller's.
func Behaviours() map[string]int { return maps.Clone(behaviours) }
