package verification

import (
	"fmt"
	"math"
	"time"
)

// tablesToCome is the number of noise multipliers that take tables after the estimates: candidates,
// in the plan and when they are verified. A given one has them in the plan already.
func (p Problem) tablesToCome() float64 {
	if p.NoiseMultiplier != 0 {
		return 1
	}
	return tablesOfCandidates
}

// share is the part of a budget that estimates may take: samples, or time of processors, in
// which tables count too. The zero share has no bound.
type share struct {
	samples float64
	seconds float64 // since the plan began
	reserve float64 // of the same unit, see extend
	whole   float64 // the whole budget, of the same unit
	budget  string  // the whole one, in words
	most    float64 // samples that could be drawn when the first estimate began

	begun     time.Time
	clock     func() time.Duration // time of processors; 0 where it is not known
	processor time.Duration        // at begun
}

// spent is the part of a budget that a plan has taken.
type spent struct {
	samples uint64
	seconds float64 // of processors
}

// after returns the problem for a second plan of the same budget.
func (p Problem) after(first *Plan) Problem {
	if first != nil {
		p.before = first.spent
	}
	return p
}

// newShare is the share of a problem when its plan begins: the whole of a budget in time, until
// the first estimate begins. A verification up to a given part of δ has none.
func (p Problem) newShare() share {
	before := time.Duration(p.before.seconds * float64(time.Second))
	s := share{begun: time.Now().Add(-before), clock: processorTime}
	if p.simulated != nil {
		s.clock = p.simulated.now
	}
	s.processor = s.clock() - before
	switch {
	case p.Accept > 0:
	case p.Samples > 0:
		left := float64(p.Samples - min(p.Samples, p.before.samples))
		s.samples, s.reserve, s.budget = math.Ceil(planShare*left), math.Floor((mostShare-planShare)*left), fmt.Sprintf("%d samples", p.Samples)
		s.whole = left
	case p.CPUTime > 0:
		s.seconds, s.budget = p.CPUTime.Seconds(), fmt.Sprintf("%v of one processor", p.CPUTime)
		s.whole = s.seconds
	default:
		s.seconds, s.budget = DefaultCPUTime.Seconds(), fmt.Sprintf("%v of one processor, the default", DefaultCPUTime)
		s.whole = s.seconds
	}
	return s
}

// timeForProofs says whether the search for the smallest noise multiplier that needs no samples may
// go on. Until it has found one, it may use all of a budget in time. After that it ends when the
// multiplier is known to proofRatio, or when proofShare of the budget is used. A budget in samples
// sets no limit in time: its protocol is the same on every machine, which such a limit would spoil.
func (e *estimator) timeForProofs(proven, ratio float64) bool {
	limit := e.share.seconds
	if proven > 0 {
		limit *= proofShare
	}
	if e.doing == phaseProofs && ratio > proofRatio {
		e.report(Phase{Text: phaseProofs, Left: e.timeLeft(limit)})
	}
	return ratio > proofRatio && (limit == 0 || e.used() < limit)
}

// timeForFineProofs is timeForProofs where nothing else is left.
func (e *estimator) timeForFineProofs(float64, float64) bool {
	return e.share.whole == 0 || e.share.samples > 0 || e.used() < e.share.whole
}

// timeLeft is the time that is left of a part of a budget in time, in seconds; 0 for a part without
// an end.
func (e *estimator) timeLeft(part float64) float64 {
	if e.share.seconds == 0 || part == 0 {
		return 0
	}
	return max(1e-3, part-e.used())
}

// limitTo leaves the estimates this part of the remaining budget.
func (e *estimator) limitTo(part float64) {
	switch {
	case e.share.samples > 0:
		e.share.samples = math.Ceil(part * e.share.whole)
	case e.share.seconds > 0:
		used := e.used()
		e.share.seconds = used + part*max(0, e.share.seconds-used)
	}
	e.share.reserve = 0
}

// beginEstimates leaves the estimates their share of the time that is left.
func (e *estimator) beginEstimates() {
	if used := e.used(); e.share.seconds > 0 {
		left := max(0, e.share.seconds-used)
		e.share.seconds, e.share.reserve = used+planShare*left, (mostShare-planShare)*left
	}
}

// lengthen makes a budget that was not given longCPUTime, and leaves the estimates their part of
// it. ok is false where it was given.
func (e *estimator) lengthen(p Problem) (ok bool) {
	if p.Samples > 0 || p.CPUTime > 0 || p.Accept > 0 {
		return false
	}
	e.share.whole = longCPUTime.Seconds()
	e.share.seconds, e.share.budget = e.share.whole, fmt.Sprintf("%v of one processor, the longest default", longCPUTime)
	e.beginEstimates()
	return true
}

// extend leaves the estimates more of the budget, once, where there is more.
func (e *estimator) extend() bool {
	more := e.share.reserve
	switch {
	case more == 0:
		return false
	case e.share.samples > 0:
		e.share.samples += more
	default:
		e.share.seconds += more
	}
	e.share.reserve = 0
	return true
}

// used is how many seconds of processors have gone since the plan began.
func (e *estimator) used() float64 {
	if now := e.share.clock(); now > 0 {
		return (now - e.share.processor).Seconds()
	}
	return time.Since(e.share.begun).Seconds() * float64(e.workers)
}

// left is the number of samples that estimates may still draw. For a budget in time, a sample must
// have been measured.
func (e *estimator) left() float64 { return e.leftOf(max(e.share.samples, e.share.seconds)) }

// allLeft is how many samples the whole budget has left.
func (e *estimator) allLeft() float64 { return e.leftOf(e.share.whole) }

// leftOf is the number of samples that are left of part, which is in the unit of the budget.
func (e *estimator) leftOf(part float64) float64 {
	switch {
	case e.share.samples > 0:
		return max(0, part-float64(e.drawn-e.measured))
	case e.share.seconds > 0:
		return max(0, (part-e.used())/e.eachCPU())
	}
	return math.Inf(1)
}
