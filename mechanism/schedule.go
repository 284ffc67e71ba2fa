package mechanism

import (
	"math"
	"slices"

	"minsep/internal/param"
)

// Schedules of learning rates that have a name. Any other name is the name of a file, which the
// caller reads. The largest rate of those with a name is 1.
const (
	ConstantSchedule     = "constant"
	CosineSchedule       = "cosine"        // half a cosine, from 1 to 0: step i of n has (1 + cos(πi/n))/2
	LinearSchedule       = "linear"        // straight from 1 to 0: step i of n has 1 - i/n
	WarmupCosineSchedule = "warmup-cosine" // straight from 0 to 1 over the steps of the warm-up, then half a cosine to 0
	CooldownSchedule     = "cooldown"      // arXiv 2211.06530: linearly to 0.05 over the last quarter
	LinearDecaySchedule  = "linear-decay"  // arXiv 2602.09338: linearly to 0.05 between a quarter and three quarters
)

// Schedules are the names of the schedules.
var Schedules = []string{
	ConstantSchedule,
	CosineSchedule,
	LinearSchedule,
	WarmupCosineSchedule,
	CooldownSchedule,
	LinearDecaySchedule,
}

// schedule returns the learning rates of a named schedule, nil for a constant one. Of the names only
// [WarmupCosineSchedule] has a warm-up: the rate is 0 at step 0, and 1 at step warmup. Frameworks
// count likewise: the first step of a warm-up changes nothing.
func schedule(name string, steps, warmup int) []float64 {
	n := float64(steps)
	cosine := func(at, length float64) float64 { return (1 + math.Cos(math.Pi*at/length)) / 2 }
	fall := func(at, from, to float64) float64 { // from 1 at from to 0.05 at to
		const final = .05
		share := 1.0
		if at++; at < to {
			share = max(0, at-from) / (to - from)
		}
		return 1 + share*(final-1)
	}
	rates := make([]float64, steps)
	for i := range rates {
		at := float64(i)
		switch name {
		case CosineSchedule:
			rates[i] = cosine(at, n)
		case LinearSchedule:
			rates[i] = 1 - at/n
		case WarmupCosineSchedule:
			if rates[i] = at / float64(warmup); i >= warmup {
				rates[i] = cosine(at-float64(warmup), n-float64(warmup))
			}
		case CooldownSchedule:
			rates[i] = fall(at, n*.75, n)
		case LinearDecaySchedule:
			rates[i] = fall(at, n/4, 3*n/4)
		default:
			return nil
		}
	}
	return rates
}

// checkRates requires finite learning rates of at least 0, and one above it.
func checkRates(check *param.Checker, rates []float64) {
	for _, eta := range rates {
		if !(eta >= 0) || math.IsInf(eta, 1) {
			check.Require(false, "rate", eta, "must be a finite number of at least 0")
			return
		}
	}
	check.Require(len(rates) == 0 || slices.Max(rates) > 0, "rates", 0, "must not all be 0")
}
