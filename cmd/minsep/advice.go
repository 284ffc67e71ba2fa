package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minsep/accounting"
	"minsep/accounting/verification"
)

// advice says what would help after something could not be certified, by the names of flags or of the plan's fields; "" if err is
// something else.
func advice(cmd *cobra.Command, err error) string {
	names := strings.NewReplacer()
	if cmd.Name() == "run" {
		names = strings.NewReplacer("--cpu-time ", "privacy.cpu_time ", "--samples ", "privacy.samples ", "--noise-multiplier", "privacy.noise_multiplier",
			"--epsilon", "privacy.epsilon", "--delta", "privacy.delta", "--cpu-time,", "privacy.cpu_time,", "--max-batch-size ", "scheme.max_batch_size ")
	}
	var refused *accounting.RefusedError
	var cut *accounting.TruncationError
	var few *verification.TooFewError
	var rejected *accounting.NotVerifiedError
	switch {
	case errors.As(err, &refused):
		return "" // its reason says what there is no analysis for
	case errors.As(err, &cut):
		return names.Replace(fmt.Sprintf("what would help: --max-batch-size %d", cut.Suggested))
	case errors.As(err, &few) && few.Need > 0 && few.Need < maxAdvised && few.CPU > 0:
		return names.Replace(fmt.Sprintf("what would help: --cpu-time %s or more (or --samples %.0f), a larger --epsilon or --delta, or a smaller batch",
			budgetTime(few.Need*few.CPU), twoDigits(few.Need)))
	case errors.Is(err, accounting.ErrTooFewSamples):
		return names.Replace("what would help: a larger --epsilon or --delta, a smaller batch, or a strategy of at most min-sep bands")
	case errors.Is(err, verification.ErrNotPrivate):
		return names.Replace("what would help: a larger --noise-multiplier, or none, for the smallest that can be verified; a larger --epsilon or --delta")
	case errors.As(err, &rejected):
		return names.Replace(moreSamples(rejected))
	case errors.Is(err, accounting.ErrNotVerified):
		return names.Replace("what would help: no --noise-multiplier, for the smallest that can be verified, or a larger one; a larger --cpu-time, where the mean is below delta; " +
			"a larger --epsilon or --delta")
	}
	return ""
}

// adviceErrors is how many standard errors there are between the mean that was seen and the one that
// is accepted with the samples that are advised: a fresh verification then passes 99 times in 100.
const adviceErrors = 2.5

// moreSamples says what would help after a verification that found too large a mean.
func moreSamples(e *accounting.NotVerifiedError) string {
	others := "a larger --epsilon or --delta, a smaller batch, or another scheme"
	need, ok := e.Need(adviceErrors)
	if !ok || need > maxAdvised {
		return fmt.Sprintf("more samples do not help: the mean leaves no room below delta; what would: a noise multiplier above %.4g "+
			"(without --noise-multiplier the smallest that can be verified is searched), %s", e.NoiseMultiplier, others)
	}
	budget := fmt.Sprintf("--samples %.0f or more", twoDigits(need))
	if e.CPU > 0 {
		budget = fmt.Sprintf("--cpu-time %s or more (or --samples %.0f)", budgetTime(need*e.CPU), twoDigits(need))
	}
	return fmt.Sprintf("what would help: %s with --noise-multiplier %.6g; a larger noise multiplier "+
		"(without --noise-multiplier the smallest that can be verified is searched), %s", budget, e.NoiseMultiplier, others)
}

// maxAdvised is the largest number of samples that is advised: weeks of processors.
const maxAdvised = 1e13

// twoDigits rounds up to two digits.
func twoDigits(x float64) float64 {
	scale := math.Pow(10, math.Max(0, math.Floor(math.Log10(x))-1))
	return math.Ceil(x/scale) * scale
}

// budgetTime writes seconds as a duration that --cpu-time takes, rounded up.
func budgetTime(seconds float64) string {
	unit, name := time.Second, "s"
	switch {
	case seconds > 48*3600:
		unit, name = time.Hour, "h"
	case seconds > 100:
		unit, name = time.Minute, "m"
	}
	return fmt.Sprintf("%.0f%s", math.Max(1, math.Ceil(1.1*seconds/unit.Seconds())), name)
}
