package pld

import (
	"fmt"
	"slices"

	"minsep/internal/param"
)

// CyclicPoisson is DP-MF with cyclic Poisson sampling and a strategy of at most MinSep bands
// (arXiv 2602.09338, section 3; F3.5). Examples are divided into MinSep parts; step i draws from
// part i mod MinSep, and each example of the part is in the batch with probability Prob. So an
// example can take part in every MinSep-th step only, and the strategy's columns of these steps do
// not overlap. Its steps are independent events, with the columns' norms as sensitivities. The
// worst part counts.
type CyclicPoisson struct {
	Prob            float64     `json:"prob"`                   // in (0, 1], within the part that has its turn: MinSep·p0; the largest one for parts of unequal size
	Steps           int         `json:"steps"`                  // n, at least 1
	MinSep          int         `json:"min_sep"`                // b, the number of parts, at least 1; 1 is DP-SGD with Poisson sampling
	NoiseMultiplier float64     `json:"noise_multiplier"`       // σ, above 0: standard deviation of the noise in units of the clip norm
	ColumnNorms     []float64   `json:"column_norms,omitempty"` // of C, one a step, each above 0; nil: all 1
	Truncation      *Truncation `json:"truncation,omitempty"`   // Others: one less than the size of the largest part
}

// Validate reports every fault.
func (c CyclicPoisson) Validate() error {
	k := param.Checker{}
	k.AtLeast("steps", c.Steps, 1)
	k.AtLeast("min-sep", c.MinSep, 1)
	k.Probability("prob", c.Prob)
	k.Positive("noise multiplier", c.NoiseMultiplier)
	if c.ColumnNorms != nil {
		k.Require(
			len(c.ColumnNorms) == c.Steps,
			"column norms",
			len(c.ColumnNorms),
			fmt.Sprintf("must be as many as steps, %d", c.Steps),
		)
	}
	for _, norm := range c.ColumnNorms {
		if !(norm > 0) {
			k.Positive("column norm", norm)
			break
		}
	}
	return k.Err()
}

// normTolerance is the relative difference below which column norms share one event: the upper
// bound takes the larger norm, the lower bound the smaller one. It saves a discretisation a step.
const normTolerance = 1e-5

// Compose returns the composition of one example's events. The upper bounds are for a part that is
// at least as bad as each, the lower bounds for one real part.
func (c CyclicPoisson) Compose(o Options) (*Composition, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	lower, upper := c.worstPhase()
	low, high := c.group(lower, false), c.group(upper, true)
	out, err := Compose(high, o)
	if err != nil || slices.Equal(low, high) {
		return out, err
	}
	under, err := Compose(low, o)
	if err != nil {
		return nil, err
	}
	out.PQ.lower, out.QP.lower = under.PQ.lower, under.QP.lower
	return out, nil
}

// Events returns the events of a part that is at least as bad as each real one: their composition
// dominates the training.
func (c CyclicPoisson) Events() ([]Step, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	_, upper := c.worstPhase()
	return c.group(upper, true), nil
}

// worstPhase returns two lists of column norms in falling order. lower has the norms of the part
// with the largest sum of squares. upper dominates every part: its j-th norm is the largest of all
// parts' j-th norms.
func (c CyclicPoisson) worstPhase() (lower, upper []float64) {
	best := -1.0
	for phase := range min(c.MinSep, c.Steps) {
		var norms []float64
		squares := 0.0
		for i := phase; i < c.Steps; i += c.MinSep {
			norm := 1.0
			if c.ColumnNorms != nil {
				norm = c.ColumnNorms[i]
			}
			norms = append(norms, norm)
			squares += norm * norm
		}
		slices.SortFunc(norms, func(a, b float64) int {
			switch {
			case a > b:
				return -1
			case a < b:
				return 1
			}
			return 0
		})
		if squares > best {
			best, lower = squares, norms
		}
		for j, norm := range norms {
			if j == len(upper) {
				upper = append(upper, norm)
			}
			upper[j] = max(upper[j], norm)
		}
	}
	return lower, upper
}

// group makes steps from norms in falling order, one for each run of nearly equal norms. up says
// that a run takes its largest norm, else its smallest.
func (c CyclicPoisson) group(norms []float64, up bool) (steps []Step) {
	for from := 0; from < len(norms); {
		to := from + 1
		for to < len(norms) && norms[to] >= norms[from]*(1-normTolerance) {
			to++
		}
		norm := norms[to-1]
		if up {
			norm = norms[from]
		}
		steps = append(steps, Step{Event{c.Prob, c.NoiseMultiplier, norm, 1, c.Truncation}, to - from})
		from = to
	}
	return steps
}
