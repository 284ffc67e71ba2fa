package verification

import (
	"errors"
	"time"

	"minsep/accounting"
	"minsep/internal/digits"
)

// DefaultCPUTime is the budget where none is given, in time of one processor.
const DefaultCPUTime = time.Minute

// longCPUTime is the budget where none is given and tables have left too little of DefaultCPUTime
// for samples: a proof without samples costs far more noise.
const longCPUTime = 5 * DefaultCPUTime

// DefaultSamples is about the number of samples in DefaultCPUTime, for one example per owner. With
// several examples a sample takes many times as long.
func DefaultSamples(steps int) uint64 { return uint64(1.5e9 / float64(2000+steps)) }

// priced returns the problem with the rest of its budget, in samples. A budget in time is
// converted at the measured speed, to a number of samples with two digits.
func (p Problem) priced(e *estimator) Problem {
	p.budget, p.weights = e.share.budget, e.weights()
	switch {
	case p.Accept > 0:
		return p
	case p.Samples > 0:
		p.bought = max(1, p.Samples-min(p.Samples, p.before.samples+e.drawn-e.measured))
		return p
	}
	left := max(0, e.share.whole-e.used()-p.tablesToCome()*e.tables/float64(max(1, e.estimates)))
	samples := float64(DefaultSamples(p.steps())) * left / DefaultCPUTime.Seconds()
	if each := e.eachCPU(); each > 0 {
		samples = left / each
	}
	p.bought = max(1, uint64(digits.Down(max(1, samples), 2)))
	return p
}

// priced adds the time of samples here, and a budget that is enough, to an error about too few
// samples. need returns the number of samples that would be enough, where the error does not say
// it.
func (e *estimator) priced(err error, estimated bool, need func() float64) error {
	var few *TooFewError
	switch {
	case err == nil || !errors.Is(err, accounting.ErrTooFewSamples):
		return err
	case errors.As(err, &few):
		few.Each, few.CPU = e.each(), e.eachCPU()
	default:
		few = &TooFewError{Cause: err, Need: need(), Each: e.each(), CPU: e.eachCPU()}
	}
	if few.Advised == 0 {
		// Estimates take a third at most, or more where tables take long.
		few.Advised, few.AdvisedCPU = few.Need, few.Need*few.CPU+e.used()
		if estimated {
			few.Advised /= 1 - planShare
		}
	}
	if e.share.seconds > 0 { // tables and estimates took the time that samples lack: the same again is not enough
		few.AdvisedCPU = max(few.AdvisedCPU, e.share.whole/(1-planShare))
	}
	return few
}
