package plan

import (
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// merged is the scope of a union's rows: a field is in every input that knows it, and null in the others.
type merged struct {
	what    string
	inputs  []scope
	mapping [][]int // per input: out slot -> in slot, -1 null
	kinds   []pipeline.Kind
	slots   map[string]int
	whole   int
}

func newMerged(what string, inputs []scope) *merged {
	return &merged{what: what, inputs: inputs, mapping: make([][]int, len(inputs)), slots: map[string]int{}, whole: -1}
}

func (m *merged) lookup(p pipeline.Path) error {
	var first error
	for _, in := range m.inputs {
		err := in.lookup(p)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (m *merged) Field(p pipeline.Path) (int, pipeline.Kind, error) {
	if err := m.lookup(p); err != nil {
		return 0, 0, err
	}
	key := p.String()
	if slot, ok := m.slots[key]; ok {
		return slot, m.kinds[slot], nil
	}
	var kinds []pipeline.Kind
	var from []int
	for _, in := range m.inputs {
		if in.lookup(p) != nil {
			from = append(from, -1)
			continue
		}
		slot, k, err := in.Field(p)
		if err != nil {
			return 0, 0, err
		}
		from, kinds = append(from, slot), append(kinds, k)
	}
	kind := common(kinds)
	slot := m.give(from, kind)
	m.slots[key] = slot
	return slot, kind, nil
}

// common is the kind that all agree on, Null when they differ.
func common(kinds []pipeline.Kind) pipeline.Kind {
	for _, k := range kinds {
		if k != kinds[0] {
			return pipeline.Null
		}
	}
	return kinds[0]
}

func (m *merged) give(from []int, kind pipeline.Kind) int {
	for i, slot := range from {
		m.mapping[i] = append(m.mapping[i], slot)
	}
	m.kinds = append(m.kinds, kind)
	return len(m.kinds) - 1
}

func (m *merged) Names() []string {
	var names []string
	for _, in := range m.inputs {
		for _, n := range in.Names() {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}

func (m *merged) columns() ([]Column, int) {
	var names []string
	var documents []int
	for _, in := range m.inputs {
		cols, whole := in.columns()
		documents = append(documents, whole)
		for _, c := range cols {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	cols := make([]Column, len(names))
	for i, name := range names {
		slot, kind, _ := m.column(name)
		cols[i] = Column{Name: name, Slot: slot, Kind: kind}
	}
	if m.open() && m.whole < 0 {
		m.whole = m.give(documents, pipeline.Null)
	}
	return cols, m.whole
}

// column is Field for what a sink writes: of the inputs' columns alone. A capture of one topic is not looked for in the
// payloads of the others.
func (m *merged) column(name string) (int, pipeline.Kind, error) {
	key := "\x00" + name
	if slot, ok := m.slots[key]; ok {
		return slot, m.kinds[slot], nil
	}
	var kinds []pipeline.Kind
	var from []int
	for _, in := range m.inputs {
		cols, _ := in.columns()
		i := slices.IndexFunc(cols, func(c Column) bool { return c.Name == name })
		if i < 0 {
			from = append(from, -1)
			continue
		}
		from, kinds = append(from, cols[i].Slot), append(kinds, cols[i].Kind)
	}
	kind := common(kinds)
	slot := m.give(from, kind)
	m.slots[key] = slot
	return slot, kind, nil
}

func (m *merged) open() bool { return m.inputs[0].open() }
func (m *merged) width() int { return len(m.kinds) }
