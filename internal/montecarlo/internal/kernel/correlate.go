package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// Lanes is the number of samples of a batch.
const Lanes = 8

// Row is one step of a batch.
type Row = [Lanes]float64

// correlator computes t_i = Σ_j filter_i[j]·z_{i+j} for a block of rows; filter_i is column i of C
// times a factor.
type correlator struct {
	columns *likelihood.Columns
	block   int   // rows of a block
	work    []Row // the rows z of a block, bands-1 rows of the next, and spare rows of the method
	out     []Row // results of the direct methods

	filter  []float64   // of every step but for its scale
	filters [][]float64 // of each step, when they differ
	scaled  bool
	fft     *transform // nil: direct
}

// directBands is the number of bands up to which the direct method is faster than the transform, as
// measured.
const directBands = 24

// leastTaps is the number of taps that suits correlateRows best; filters are filled up with
// zeros.
const leastTaps = 4

func newCorrelator(c *likelihood.Columns, factor float64) *correlator {
	k := &correlator{columns: c, block: min(192, c.Steps+c.Steps%2)}
	first := c.First()
	if first == nil {
		for i := range c.Steps {
			column, _ := c.Column(i)
			k.filters = append(k.filters, multiplied(column, factor))
		}
	} else {
		k.filter = multiplied(first, factor)
		for i := range c.Steps {
			k.scaled = k.scaled || c.Scale(i) != 1
		}
	}
	if first == nil || c.Bands <= directBands {
		for first != nil && len(k.filter) < leastTaps {
			k.filter = append(k.filter, 0)
		}
		k.work = make([]Row, k.block+max(c.Bands, leastTaps))
		k.out = make([]Row, k.block)
		return k
	}
	size := transformSize(c.Steps, c.Bands)
	blocks := ceilDiv(c.Steps, size-c.Bands+1)
	k.block = ceilDiv(c.Steps, blocks)
	k.fft = newTransform(size, k.filter)
	k.work = make([]Row, size)
	return k
}

func multiplied(values []float64, factor float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = factor * v
	}
	return out
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// transformSize returns the power of 4 of the least work: rows of all blocks times the levels.
func transformSize(steps, bands int) int {
	best, least := 0, math.Inf(1)
	for size, levels := 16, 2.0; size <= 16*(steps+bands); size, levels = 4*size, levels+1 {
		if size < bands {
			continue
		}
		if work := float64(size*ceilDiv(steps, size-bands+1)) * (levels + 1.5); work < least {
			best, least = size, work
		}
	}
	return best
}

// correlate returns t for the rows first … first+count-1. Their z are the first count rows of
// work; the bands-1 rows after them hold z of the next block or zeros. It uses up work.
func (k *correlator) correlate(first, count int) []Row {
	switch {
	case k.fft != nil:
		clear(k.work[min(len(k.work), count+k.columns.Bands-1):])
		k.fft.correlate(k.work, k.fft.spectrum)
		k.out = k.work
	case k.filters != nil:
		for i := range count {
			correlateRow(&k.out[i], k.work[i:], k.filters[first+i])
		}
	default:
		correlateRows(k.out[:count], k.work, k.filter)
	}
	if k.scaled {
		for i := range count {
			scale := k.columns.Scale(first + i)
			for l := range k.out[i] {
				k.out[i][l] *= scale
			}
		}
	}
	return k.out[:count]
}
