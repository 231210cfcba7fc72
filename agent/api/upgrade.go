package api

import (
	"context"
	"net/http"
)

// UpgradeOptions say which program is to take over, and how.
type UpgradeOptions struct {
	File    string `json:"file"`    // the artifact; absolute: the agent reads it
	Release []byte `json:"release"` // the signed manifest
	// DiscardState lets a program begin that cannot read the state.
	DiscardState bool `json:"discard_state,omitempty"`
	// UploadSavepoints: the switch waits until they are at the central store.
	UploadSavepoints bool `json:"upload_savepoints,omitempty"`
	// Again: the program may have failed here before.
	Again bool `json:"again,omitempty"`
}

// UpgradeStatus is the last upgrade, or the one under way.
type UpgradeStatus struct {
	Number    uint64   `json:"number,omitempty"`
	State     string   `json:"state"`
	From      string   `json:"from,omitempty"` // versions
	To        string   `json:"to,omitempty"`
	Release   string   `json:"release,omitempty"`
	Slot      string   `json:"slot,omitempty"`            // that this program runs from
	Tries     int      `json:"tries,omitempty"`           // starts that are left
	Waits     string   `json:"waits,omitempty"`           // for what
	Repeated  uint64   `json:"pieces_repeated,omitempty"` // pieces of the program that were asked for once more, since the start
	Why       string   `json:"why,omitempty"`             // it failed, or is gone back from
	Cause     string   `json:"cause,omitempty"`           // the same in a word
	Held      int64    `json:"held_bytes,omitempty"`      // of results that wait for the commit
	Offline   bool     `json:"committed_offline,omitempty"`
	Rejected  []string `json:"rejected,omitempty"`   // sha256 of programs that have failed here and are not tried again, unless somebody says so
	Vain      int      `json:"vain_tries,omitempty"` // how often in a row the step under way has failed
	Stands    string   `json:"stands,omitempty"`     // why it fails, once that was often
	NotUsable string   `json:"not_usable,omitempty"` // why no pipeline runs and help is needed
}

// upgradeMax bounds a signed manifest, and what stands beside it.
const upgradeMax = 2 << 20

func (s *Server) upgradeRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/upgrade", func(w http.ResponseWriter, r *http.Request) {
		o, ok := bodyUpTo[UpgradeOptions](w, r, upgradeMax)
		if !ok {
			return
		}
		err := s.agent.Upgrade(r.Context(), o)
		answer(w, s.agent.Status().Upgrade, err)
	})
	m.HandleFunc("POST /v1/upgrade/abort", func(w http.ResponseWriter, r *http.Request) {
		o, ok := body[struct {
			Why string `json:"why"`
		}](w, r)
		if !ok {
			return
		}
		err := s.agent.AbortUpgrade(r.Context(), o.Why)
		answer(w, s.agent.Status().Upgrade, err)
	})
}

// Upgrade has another program take over.
func (c *Client) Upgrade(ctx context.Context, o UpgradeOptions) (s UpgradeStatus, err error) {
	err = c.send(ctx, "/v1/upgrade", o, &s)
	return s, err
}

// AbortUpgrade gives the upgrade under way up.
func (c *Client) AbortUpgrade(ctx context.Context, why string) (s UpgradeStatus, err error) {
	err = c.send(ctx, "/v1/upgrade/abort", map[string]string{"why": why}, &s)
	return s, err
}
