package wire

import (
	"encoding/json"
	"fmt"

	"github.com/weirstream/weir/uplink"
)

// Answer is the JSON body of every answer.
type Answer struct {
	Generation  uint64     `json:"generation,omitempty"`
	Incarnation string     `json:"incarnation,omitempty"`
	Seq         uint64     `json:"seq"`
	Chain       string     `json:"chain,omitempty"`
	Rejected    []Rejected `json:"rejected,omitempty"`
	Error       string     `json:"error,omitempty"`
}

// Rejected names a record that will never be taken.
type Rejected struct {
	Seq    uint64 `json:"seq"`
	Reason string `json:"reason"`
}

// ProgressAnswer makes the answer of a receiver that stands at p.
func ProgressAnswer(p uplink.Progress) Answer {
	a := Answer{Generation: p.Generation, Incarnation: p.Incarnation.String(), Seq: p.Seq}
	if p.Chain != 0 {
		a.Chain = FormatChain(p.Chain)
	}
	return a
}

// ParseAnswer reads an answer's body.
func ParseAnswer(body []byte) (Answer, error) {
	var a Answer
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("read answer %.80q: %w", body, err)
	}
	return a, nil
}

// Progress is the inverse of ProgressAnswer.
func (a *Answer) Progress() (uplink.Progress, error) {
	p := uplink.Progress{Generation: a.Generation, Seq: a.Seq}
	var err error
	if a.Incarnation != "" {
		if p.Incarnation, err = ParseIncarnation(a.Incarnation); err != nil {
			return p, err
		}
	}
	p.Chain, err = ParseChain(a.Chain)
	return p, err
}

// Names gives the rejections in uplink's form.
func (a *Answer) Names() (names []uplink.Rejected) {
	for _, r := range a.Rejected {
		names = append(names, uplink.Rejected{Seq: r.Seq, Reason: r.Reason})
	}
	return names
}
