package sampling_test

import (
	"testing"

	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

// TestPrioritiesAreFresh: staying in a batch at one step says nothing of another step, of another
// entry beyond the size of the batch, or of a copy, as docs/formulas.md, F3.6, needs.
func TestPrioritiesAreFresh(t *testing.T) {
	const rounds = 20000
	src := stream.NewSource(key("fresh"))
	stays := func(row int64, step int, rows []int64) int {
		stay := 0
		for _, r := range sampling.Cut(sampling.Truncation{MaxBatchSize: 2}, rows, wordsAt(src, step)) {
			if r == row {
				stay++
			}
		}
		return stay
	}
	steps, copies := make([]int, 4), make([]int, 3)
	for round := range int64(rounds) {
		first := 4 * round
		batch := func() []int64 { return []int64{first, first + 1, first + 2, first + 3} }
		steps[2*stays(first, 0, batch())+stays(first, 1, batch())]++
		copies[stays(first, 2, []int64{first, first, first + 1, first + 2})]++
	}
	if err := stattest.Distribution(steps, []float64{0.25, 0.25, 0.25, 0.25}); err != nil {
		t.Errorf("two steps: %v", err)
	}
	if err := stattest.Distribution(copies, []float64{1. / 6, 4. / 6, 1. / 6}); err != nil { // two of four stay
		t.Errorf("two copies: %v", err)
	}
}
