package httpsink

import (
	"encoding/json"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// plainNames finds the records that a foreign endpoint names in a refusal, by their place among the rows of the request
// from 0: {"rejected":[{"index":2,"reason":"..."}]}, or "errors" in place of "rejected".
func plainNames(b *uplink.Batch, body []byte) []uplink.Rejected {
	type name struct {
		Index  *int   `json:"index"`
		Reason string `json:"reason"`
		Error  string `json:"error"`
	}
	var doc struct {
		Rejected []name `json:"rejected"`
		Errors   []name `json:"errors"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return nil
	}
	var data []uint64
	for i := range b.Results {
		if b.Results[i].Kind == pipeline.ResultData {
			data = append(data, b.Results[i].Seq)
		}
	}
	var out []uplink.Rejected
	for _, n := range append(doc.Rejected, doc.Errors...) {
		reason := n.Reason + n.Error
		if n.Index != nil && *n.Index >= 0 && *n.Index < len(data) {
			out = append(out, uplink.Rejected{Seq: data[*n.Index], Reason: reason})
		}
	}
	return out
}
