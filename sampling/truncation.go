package sampling

import (
	"slices"

	"minsep/internal/param"
	"minsep/internal/stream"
)

// Truncation cuts batches that are larger than MaxBatchSize (arXiv 2602.09338, Appendix D).
//
// # Formal guarantees
//
// A larger batch is replaced by a uniformly random subset of MaxBatchSize of its entries, drawn
// with the truncation's key for this step. Truncation comes after the sampling: an example that is
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

// Truncator truncates under one key. It is not safe for concurrent use.
type Truncator struct {
	Truncation
	src              *stream.Source
	words            *stream.Stream
	priority, sorted []uint64
}

// Truncator returns a truncator under key.
func (t Truncation) Truncator(key stream.Key) *Truncator {
	src := stream.NewSource(key)
	return &Truncator{Truncation: t, src: src, words: src.Stream(stream.Address{})}
}

// Cut returns the batch of a step cut to MaxBatchSize, in place. rows must ascend; equal rows are
// copies of one example. Each entry has a random priority: for copy j of a row, word j of the
// address (row, step). The entries with the smallest priorities stay, and rows keep their order.
// Cut does not pad.
func Cut[R int32 | int64](t *Truncator, step int, rows []R) []R {
	if len(rows) <= t.MaxBatchSize {
		return rows
	}
	t.priority = t.priority[:0]
	for i, r := range rows {
		if i == 0 || rows[i-1] != r {
			t.words.Reset(t.src.IntAddress(int64(r), uint32(step)))
		}
		t.priority = append(t.priority, t.words.Uint64())
	}
	t.sorted = append(t.sorted[:0], t.priority...)
	slices.Sort(t.sorted)
	last := t.sorted[t.MaxBatchSize-1]
	kept := rows[:0]
	for i, r := range rows {
		if t.priority[i] <= last && len(kept) < t.MaxBatchSize {
			kept = append(kept, r)
		}
	}
	return kept
}
