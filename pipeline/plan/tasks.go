package plan

// cut divides a graph into tasks. One source: one task with everything. Several: a task for each source with the steps
// and sinks that depend on it alone, and a last task for the rest, which is there even when it is empty: the dead letters
// of all end in it.
func cut(g *Graph) []Task {
	tasks := divide(g)
	for i := range tasks {
		tasks[i].Regions = Regions(g, tasks[i].Steps)
	}
	return tasks
}

func divide(g *Graph) []Task {
	if len(g.Sources) == 1 {
		t := Task{Name: "main"}
		t.Sources = []int{0}
		for i := range g.Steps {
			t.Steps = append(t.Steps, i)
		}
		for i := range g.Sinks {
			t.Sinks = append(t.Sinks, i)
		}
		return []Task{t}
	}
	tasks := make([]Task, len(g.Sources)+1)
	for i, s := range g.Sources {
		tasks[i] = Task{Name: "source-" + s.Name, Sources: []int{i}}
	}
	last := len(g.Sources)
	tasks[last].Name = "main"
	taskOf := make([]int, len(g.Steps))
	of := func(r Ref) int {
		if r.Step < 0 {
			return r.Source
		}
		return taskOf[r.Step]
	}
	for i, s := range g.Steps {
		task := of(s.Inputs[0])
		for _, in := range s.Inputs[1:] {
			if of(in) != task {
				task = last
			}
		}
		taskOf[i] = task
		tasks[task].Steps = append(tasks[task].Steps, i)
	}
	for i, s := range g.Sinks {
		task := of(s.From)
		tasks[task].Sinks = append(tasks[task].Sinks, i)
	}
	return tasks
}
