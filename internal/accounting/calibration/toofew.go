package calibration

import (
	"fmt"

	"minsep/internal/accounting"
)

// TooFewError has the number of samples that some work takes, and their time on this machine. It
// wraps accounting.ErrTooFewSamples.
type TooFewError struct {
	What string  // the work that takes the samples, as the subject of a sentence
	Need float64 // samples; 0 if that is not known

	Budget string  // the whole budget, in words
	CPU    float64 // seconds of processors that a sample takes here; 0 if that is not known

	// Advised is a budget that is enough, in samples, and AdvisedCPU its least cost in seconds of
	// processors; 0 if that is not known.
	Advised, AdvisedCPU float64

	// Proven is a noise multiplier that needs no samples, since it needs no amplification either; 0 if
	// none is known.
	Proven float64

	Cause error // says all but the budget, if it is not nil
}

func (e *TooFewError) Error() string {
	s := ""
	switch {
	case e.Cause != nil:
		s = e.Cause.Error()
	default:
		s = fmt.Sprintf("too few samples: %s takes at least %.3g samples", e.What, e.Need)
	}
	if e.Budget != "" {
		s += fmt.Sprintf(", which the budget, %s, does not leave", e.Budget)
	}
	switch {
	case e.Need > maxBudget:
		s += "; no verification can draw so many"
	case e.Need > 0 && e.CPU > 0:
		s += fmt.Sprintf("; on this machine they take about %s of one processor", roughly(e.Need*e.CPU))
	}
	return s
}

// maxBudget is the largest number of samples of a verification.
const maxBudget = 1e15

func (e *TooFewError) Unwrap() error { return accounting.ErrTooFewSamples }

// roughly writes a time in words of two digits.
func roughly(seconds float64) string {
	switch {
	case seconds < 100:
		return fmt.Sprintf("%.2g s", seconds)
	case seconds < 6000:
		return fmt.Sprintf("%.2g min", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.2g h", seconds/3600)
	}
	return fmt.Sprintf("%.2g days", seconds/86400)
}

// Advised is a budget in samples for a rejected noise multiplier that is given again. It is enough
// to accept means this number of standard errors above the means that were seen; see
// [accounting.NotVerifiedError.Need] for ok.
func Advised(rejected *accounting.NotVerifiedError, errors float64) (samples float64, ok bool) {
	samples, ok = rejected.Need(errors)
	return samples / (1 - givenShare), ok
}
