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

// schedule returns the learning rates of a named schedule, nil for a constant one. Of the names
// only [WarmupCosineSchedule] has a warm-up.
func schedule(name string, steps, warmup int) []float64 {
	switch name {
	case CosineSchedule:
		return WarmupCosine(steps, 0)
	case LinearSchedule:
		return Linear(steps)
	case WarmupCosineSchedule:
		return WarmupCosine(steps, warmup)
	case CooldownSchedule:
		return Cooldown(steps, .25, .05)
	case LinearDecaySchedule:
		return LinearDecay(steps, .05)
	}
	return nil
}

// WarmupCosine returns learning rates that rise from 0 at step 0 to 1 at step warmup, and then fall
// to 0 along half a cosine, which they reach after the last step. Without a warm-up, 0, they begin
// at 1. Frameworks count likewise: the first step of a warm-up changes nothing.
func WarmupCosine(steps, warmup int) []float64 {
	rates := make([]float64, steps)
	for i := range rates {
		if i < warmup {
			rates[i] = float64(i) / float64(warmup)
		} else {
			rates[i] = (1 + math.Cos(math.Pi*float64(i-warmup)/float64(steps-warmup))) / 2
		}
	}
	return rates
}

// Linear returns learning rates that fall from 1 at step 0 straight to 0, which they reach after
// the last step.
func Linear(steps int) []float64 {
	rates := make([]float64, steps)
	for i := range rates {
		rates[i] = 1 - float64(i)/float64(steps)
	}
	return rates
}

// Cooldown returns learning rates that are 1 and fall linearly to final over the last part, a share
// in [0,1], of the steps. Section 5 of arXiv 2211.06530 uses final = 0.05 over the last 25 %.
func Cooldown(steps int, part, final float64) []float64 {
	return ramp(steps, float64(steps)*(1-part), float64(steps), final)
}

// LinearDecay returns learning rates that are 1 up to step Steps/4, fall linearly to final at
// 3·Steps/4 and stay there. Section 7.2 of arXiv 2602.09338 uses final = 1/20.
func LinearDecay(steps int, final float64) []float64 {
	return ramp(steps, float64(steps)/4, 3*float64(steps)/4, final)
}

// ramp is 1 before step from, final from step to on, linear between.
func ramp(steps int, from, to, final float64) []float64 {
	rates := make([]float64, steps)
	for i := range rates {
		share := 1.0
		if at := float64(i + 1); at < to {
			share = max(0, at-from) / (to - from)
		}
		rates[i] = 1 + share*(final-1)
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
