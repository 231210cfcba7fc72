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
		State string `json:"state"`
		Lag   uint64 `json:"lag"`
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

func (s *statusView) summary() string { return fmt.Sprint(s.Journal, s.Pipelines) }
