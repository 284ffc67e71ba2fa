package attack

import (
	"math"
	"slices"
)

// adapted is an attack trained on earlier observations: it takes the noise of each step to be as
// large as it was there, and decides at the thresholds that showed the largest ε there. Against the
// certified mechanism it is no better than the likelihood ratio; it gains where the noise is
// distributed otherwise.
type adapted struct {
	ratio ratio
	// scaled is y with each step divided by its deviation; log overwrites it.
	scaled  []float64
	inverse []float64 // 1 over the standard deviation of y at each step
	// power is as in [Attack].
	power float64
	above float64 // decides "took part" above this log ratio
	below float64 // decides "did not" below this one
}

// leastLevel is the smallest standard deviation that is learnt for a step, in units of σ. It keeps
// a step without noise from a division by 0.
const leastLevel = 1e-3

// Adapt trains the adapted attack on observations with and without the canary. From then on Add
// also scores observations by it; those must be others than the ones given here. Adapt does nothing
// where one side is empty.
func (a *Attack) Adapt(with, without [][]float64) {
	if len(with) == 0 || len(without) == 0 {
		return
	}
	squares := make([]float64, a.Steps())
	for _, sums := range without {
		for t, v := range multiply(a.columns, sums) {
			squares[t] += v * v
		}
	}
	b := &adapted{scaled: make([]float64, a.Steps()), inverse: make([]float64, a.Steps()), power: a.power}
	for t, s := range squares {
		b.inverse[t] = 1 / max(leastLevel*a.mechanism.NoiseMultiplier, math.Sqrt(s/float64(len(without))))
	}
	columns := make([][]float64, len(a.columns))
	for i, c := range a.columns {
		columns[i] = slices.Clone(c)
		for t := range c {
			columns[i][t] *= b.inverse[i+t]
		}
	}
	b.ratio = a.newRatio(columns, 1)
	logs := func(all [][]float64) (logs []float64) {
		for _, sums := range all {
			logs = append(logs, b.log(multiply(a.columns, sums)))
		}
		return logs
	}
	p, q := logs(with), logs(without)
	b.above = b.threshold(p, q, a.mechanism.Delta)
	b.below = -b.threshold(negated(q), negated(p), a.mechanism.Delta)
	a.adapted = b
}

// log is the attack's log likelihood ratio of y = C x + noise.
func (b *adapted) log(y []float64) float64 {
	for t, v := range y {
		b.scaled[t] = v * b.inverse[t]
	}
	return b.power * b.ratio.log(b.scaled)
}

// thresholds is the number of thresholds that are tried.
const thresholds = 200

// threshold returns the threshold above which the test shows the largest ε, on samples as large as
// these.
func (b *adapted) threshold(of, other []float64, delta float64) float64 {
	all := slices.Concat(of, other)
	slices.Sort(all)
	best, at := -1.0, all[len(all)/2]
	for i := range thresholds {
		// The thresholds are denser at the upper end, where the best one usually is.
		v := all[len(all)-1-int(float64(len(all)-1)*math.Pow(float64(i)/thresholds, 3))]
		if e := newRates(of, other, func(log float64) bool { return log > v }).bounded(FalseAlarm / 8).epsilon(delta); e > best {
			best, at = e, v
		}
	}
	return at
}

// bound is a lower confidence bound of ε at delta. It fails with probability at most half of
// [FalseAlarm].
func (b *adapted) bound(with, without []float64, delta float64) float64 {
	p := newRates(with, without, func(log float64) bool { return log > b.above }).bounded(FalseAlarm / 8)
	q := newRates(without, with, func(log float64) bool { return log < b.below }).bounded(FalseAlarm / 8)
	return max(p.epsilon(delta), q.epsilon(delta))
}

func negated(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = -v
	}
	return out
}
