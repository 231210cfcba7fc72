package crash

import "fmt"

// statusView is what the wait reads of weir status.
type statusView struct {
	Journal struct {
		Last uint64 `json:"last"`
	} `json:"journal"`
	Sessions []struct {
		State string `json:"state"`
	} `json:"sessions"`
	Pipelines []struct {
		State   string `json:"state"`
		Lag     uint64 `json:"lag"`
		Sources []struct {
			Name     string `json:"name"`
			Received uint64 `json:"received"`
		} `json:"sources"`
		Sinks []struct {
			Emitted uint64 `json:"emitted"`
			Pending uint64 `json:"pending"`
		} `json:"sinks"`
	} `json:"pipelines"`
}

func (s *statusView) settled() bool {
	for _, b := range s.Sessions {
		if b.State != "ready" {
			return false
		}
	}
	for _, p := range s.Pipelines {
		if p.State != "running" || p.Lag > 0 {
			return false
		}
		for _, k := range p.Sinks {
			if k.Pending > 0 {
				return false
			}
		}
	}
	return len(s.Pipelines) > 0
}

// failed tells whether a pipeline will not go on.
func (s *statusView) failed() bool {
	for _, p := range s.Pipelines {
		if p.State == "failed" {
			return true
		}
	}
	return false
}

// received tells whether each pipeline has read what publishAll sends, half of it to each source, and their flush messages.
func (s *statusView) received(messages int) bool {
	for _, p := range s.Pipelines {
		for _, source := range p.Sources {
			want := 1 + messages/2
			if source.Name == "a" {
				want += messages % 2
			}
			if source.Received < uint64(want) {
				return false
			}
		}
	}
	return true
}

func (s *statusView) summary() string { return fmt.Sprint(s.Journal, s.Pipelines) }
