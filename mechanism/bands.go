package mechanism

import (
	"math"
	"slices"
)

// StartingBands is the rule of thumb of arXiv 2405.15913 for the number of bands that does best
// with amplification, ε√n/k, at least 1.
func StartingBands(epsilon float64, steps, participations int) int {
	return int(max(1, min(float64(steps), math.Round(epsilon*math.Sqrt(float64(steps))/float64(participations)))))
}

// Tried is one number of bands that [Problem.ChooseBands] tried.
type Tried struct {
	Bands           int     `json:"bands"`            // 1 to the limit
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ that the accounting gave, above 0
	Error           float64 `json:"error"`            // RMSE or MaxSE times the noise multiplier, above 0
}

// ChooseBands returns the strategy with the least amplified error over numbers of bands up to
// limit: its RMSE, or MaxSE for MaxError, times the noise multiplier that amplified accounting
// gives it. It climbs from start in steps of two while the error falls, then looks halfway, so it
// calls noiseMultiplier, the expensive part, about five to ten times. family makes the strategy of
// so many bands. The choice is as good as noiseMultiplier's estimates: certify the result anew.
func (p Problem) ChooseBands(start, limit int, family func(bands int) (*Strategy, error), noiseMultiplier func(*Strategy) (float64, error)) (*Strategy, []Tried, error) {
	if err := p.validate("first bands", start, limit); err != nil {
		return nil, nil, err
	}
	var tried []Tried
	made := map[int]*Strategy{}
	attempt := func(bands int) (float64, error) {
		for _, t := range tried {
			if t.Bands == bands {
				return t.Error, nil
			}
		}
		s, err := family(bands)
		if err != nil {
			return 0, err
		}
		sigma, err := noiseMultiplier(s)
		if err != nil {
			return 0, err
		}
		e, err := s.Error(p.Workload)
		if err != nil {
			return 0, err
		}
		root := e.RMSE
		if p.Objective == MaxError {
			root = e.MaxSE
		}
		made[bands] = s
		tried = append(tried, Tried{bands, sigma, sigma * root})
		return sigma * root, nil
	}
	best := start
	least, err := attempt(start)
	if err != nil {
		return nil, nil, err
	}
	improve := func(bands int) (bool, error) {
		e, err := attempt(bands)
		if err != nil || e >= least {
			return false, err
		}
		best, least = bands, e
		return true, nil
	}
	for _, factor := range []float64{2, .5, 1.5, .75} {
		for {
			next := min(limit, max(1, int(math.Round(float64(best)*factor))))
			better, err := improve(next)
			if err != nil {
				return nil, tried, err
			}
			if !better {
				break
			}
		}
	}
	slices.SortFunc(tried, func(a, b Tried) int { return a.Bands - b.Bands })
	return made[best], tried, nil
}
