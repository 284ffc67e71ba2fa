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
			"--epsilon", "privacy.epsilon", "--delta", "privacy.delta", "--cpu-time,", "privacy.cpu_time,")
	}
	var refused *accounting.RefusedError
	var few *verification.TooFewError
	switch {
	case errors.As(err, &refused):
		return "" // its reason says what there is no analysis for
	case errors.As(err, &few) && few.Need > 0 && few.Need < 1e13 && few.CPU > 0:
		return names.Replace(fmt.Sprintf("what would help: --cpu-time %s or more (or --samples %.0f), a larger --epsilon or --delta, or a smaller batch",
			budgetTime(few.Need*few.CPU), twoDigits(few.Need)))
	case errors.Is(err, accounting.ErrTooFewSamples):
		return names.Replace("what would help: a larger --epsilon or --delta, a smaller batch, or a strategy of at most min-sep bands")
	case errors.Is(err, verification.ErrNotPrivate):
		return names.Replace("what would help: a larger --noise-multiplier, or none, for the smallest that can be verified; a larger --epsilon or --delta")
	case errors.Is(err, accounting.ErrNotVerified):
		return names.Replace("what would help: no --noise-multiplier, for the smallest that can be verified, or a larger one; a larger --cpu-time, where the mean is below delta; " +
			"a larger --epsilon or --delta")
	}
	return ""
}

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
