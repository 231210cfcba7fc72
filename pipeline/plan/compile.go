package plan

// Compile checks a pipeline and makes its graph. The graph is nil when there are problems. It is a pure function.
func Compile(spec *Spec) (graph *Graph, problems, warnings Problems) { return nil, nil, nil }
