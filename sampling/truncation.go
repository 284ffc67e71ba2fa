package sampling

import (
	"slices"

	"minsep/internal/param"
)

// Truncation cuts batches that are larger than MaxBatchSize (arXiv 2602.09338, Appendix D).
//
// # Formal guarantees
//
// A larger batch is replaced by a uniformly random subset of MaxBatchSize of its entries, drawn
// afresh for this step. Truncation comes after the sampling: an example that is
// cut stays ineligible as if it had taken part. With Pad, smaller batches are filled with row -1,
// an example of zero gradient. The sizes of batches before and after, and which entries are
// padding, are secret.
type Truncation struct {
	MaxBatchSize int  `json:"max_batch_size"` // entries, at least 1
	Pad          bool `json:"pad,omitempty"`  // fill smaller batches up to MaxBatchSize
}

// PadRow is the row of an entry that is padding.
const PadRow = -1

// Validate returns every fault of the parameters, joined.
func (t Truncation) Validate() error {
	c := param.Checker{}
	c.AtLeast("max batch size", t.MaxBatchSize, 1)
	return c.Err()
}

// Priorities returns the random priority of each entry of a batch, by which [Truncation] chooses: of
// copy j of a row, word j of words, which must be fresh for every row and step. rows must ascend; equal
// rows are copies of one example.
func Priorities(rows []int64, words func(row int64) Words) []uint64 {
	priority := make([]uint64, len(rows))
	var of Words
	for i, r := range rows {
		if i == 0 || rows[i-1] != r {
			of = words(r)
		}
		priority[i] = of.Uint64()
	}
	return priority
}

// Cut returns the batch of a step cut to MaxBatchSize, in place: the entries with the smallest
// [Priorities] stay, and rows keep their order. Cut does not pad.
func Cut(t Truncation, rows []int64, words func(row int64) Words) []int64 {
	if len(rows) <= t.MaxBatchSize {
		return rows
	}
	priority := Priorities(rows, words)
	sorted := slices.Clone(priority)
	slices.Sort(sorted)
	last := sorted[t.MaxBatchSize-1]
	kept := rows[:0]
	for i, r := range rows {
		if priority[i] <= last && len(kept) < t.MaxBatchSize {
			kept = append(kept, r)
		}
	}
	return kept
}
