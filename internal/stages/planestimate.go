package stages

import (
	"minsep/internal/accounting/calibration"
)

// PlanEstimate is the expected output and cost of a stage. It follows from the plan and from the
// tables that are there, all of which is public. No outcome of chance is in it.
type PlanEstimate struct {
	Rows   int64   `json:"rows,omitempty"`    // of the graph that is read: edges; of batches: participations; of noise: values
	Files  int     `json:"files,omitempty"`   // without the index
	Bytes  int64   `json:"bytes,omitempty"`   // of these files, at least 0
	Memory int64   `json:"memory_bytes"`      // bytes at the peak, of the whole process
	CPU    float64 `json:"cpu_seconds"`       // seconds of processors, about
	AtMost bool    `json:"at_most,omitempty"` // of an account whose CPU is its budget, as it cannot be told how much of it is needed

	Sampled bool `json:"sampled,omitempty"` // an account that draws samples: it may end without a certificate

	// Outlook is a forecast of the samples of an account before they are drawn; nil where
	// there is nothing to say.
	Outlook *calibration.Outlook `json:"outlook,omitempty"`

	// SuggestedMaxBatchSize, of account, is the smallest maximum batch size that adds at most
	// accounting.SuggestedShare to delta at any noise multiplier; 0 where none is known.
	SuggestedMaxBatchSize int `json:"suggested_max_batch_size,omitempty"`
}

// processMemory is the memory of a process that does nothing, in bytes.
//
// The costs of the stages, seconds of one processor and bytes of memory on the direct runner, are
// in the stages' files, as they were measured.
const processMemory = 55 << 20

// Estimate returns the expected output and cost of a stage. edges is about the number of edges of
// the graph.
func (p Plan) Estimate(stage string, edges int64) PlanEstimate {
	e := Named(stage).estimate(p, edges)
	e.Memory += processMemory
	return e
}

// Product returns the product of counts above 0, or 2^62 if it is larger: no disk has such sizes.
func Product(counts ...int64) int64 {
	const most = 1 << 62
	product := int64(1)
	for _, n := range counts {
		if n > 0 && product > most/n {
			return most
		}
		product *= n
	}
	return product
}
