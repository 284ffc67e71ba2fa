package likelihood

import (
	"fmt"
	"math"
	"slices"
)

// Owner is the likelihood ratio of an owner of k examples, each in a b-min-sep process of its own,
// for at most b bands (F4.2), exact for any k. Its states are the multisets of ages of the examples
// that participated less than b steps ago, one example at least being free: a participation at i
// makes a new age, and costs the overlap with the columns of every age. When no example is free,
// the recursion goes on at the step at which the example with the largest age is.
//
// A warm start needs no recursion of its own: an example that waits r steps is one that
// participated b-r steps before the first step, where columns are zero.
type Owner struct {
	Process
	Examples int
	crossed

	States []State // the first has all examples free
	Starts []Start
	rows   [][]float64 // ring of b+1 rows of ln V_i(state), step j at j mod (b+1)
}

// State is a state with its ways on: way j has j new participations.
type State struct {
	Ages []int // of blocked examples, largest first
	Ways []Way
}

// Way leads to a state some steps ahead.
type Way struct {
	LogProb float64
	Ahead   int
	State   int
}

// Start is a row and a state that the first waits lead to.
type Start struct {
	LogProb    float64
	Row, State int
}

// OwnerStates returns how many states the ratio has: binom(b+k-2, k-1).
func OwnerStates(minSep, examples int) int {
	states := 1.0
	for i := 1; i < examples; i++ {
		states *= float64(minSep+i-1) / float64(i)
	}
	return int(math.Min(math.Round(states), 1e9))
}

// NewOwner prepares the ratio; factor is 1/σ².
func NewOwner(p Process, c *Columns, examples int, factor float64) *Owner {
	o := &Owner{Process: p, Examples: examples, crossed: newCrossed(c, p.MinSep, factor)}
	index := o.enumerate()
	for s := range o.States {
		state := &o.States[s]
		free := examples - len(state.Ages)
		for j := range free + 1 {
			ages := append(slices.Clone(state.Ages), make([]int, j)...)
			ahead, next := o.advance(ages)
			state.Ways = append(state.Ways, Way{logBinomial(free, j, p.Prob), ahead, index[key(next)]})
		}
	}
	o.warm(index)
	return o
}

func key(ages []int) string { return fmt.Sprint(ages) }

// enumerate lists the states.
func (o *Owner) enumerate() map[string]int {
	index := make(map[string]int)
	var add func(ages []int, largest int)
	add = func(ages []int, largest int) {
		index[key(ages)] = len(o.States)
		o.States = append(o.States, State{Ages: slices.Clone(ages)})
		if len(ages) == o.Examples-1 {
			return
		}
		for age := largest; age >= 1; age-- {
			add(append(ages, age), age)
		}
	}
	add([]int{}, o.MinSep-1)
	return index
}

// advance goes to the next step at which an example is free, and returns the number of steps to it
// and the ages there.
func (o *Owner) advance(ages []int) (ahead int, next []int) {
	ahead = 1
	if len(ages) == o.Examples {
		ahead = o.MinSep - slices.Max(ages)
	}
	next = []int{}
	for _, age := range ages {
		if age+ahead < o.MinSep {
			next = append(next, age+ahead)
		}
	}
	return ahead, next
}

// warm lists the rows and states that independent stationary waits lead to.
func (o *Owner) warm(index map[string]int) {
	waits := o.logWaits()
	var add func(chosen []int, largest int, logProb float64)
	add = func(chosen []int, largest int, logProb float64) {
		if len(chosen) < o.Examples {
			for r := largest; r >= 0; r-- {
				add(append(chosen, r), r, logProb+waits[r])
			}
			return
		}
		row := slices.Min(chosen)
		ages := []int{}
		for _, r := range slices.Backward(chosen) { // the smallest wait is the largest age
			if r > row {
				ages = append(ages, o.MinSep-(r-row))
			}
		}
		o.Starts = append(o.Starts, Start{logProb + logArrangements(chosen), row, index[key(ages)]})
	}
	add(nil, len(waits)-1, 0)
}

// logArrangements returns the log number of orders of a sorted list.
func logArrangements(sorted []int) float64 {
	log, run := 0.0, 0
	for i, v := range sorted {
		if i > 0 && v == sorted[i-1] {
			run++
		} else {
			run = 1
		}
		log += math.Log(float64(i+1)) - math.Log(float64(run))
	}
	return log
}

// Waits returns the probabilities of the waits of one example before its first step.
func (o *Owner) Waits() []float64 {
	waits := o.logWaits()
	for r, log := range waits {
		waits[r] = math.Exp(log)
	}
	return waits
}

// Fork shares the tables.
func (o *Owner) Fork() Ratio {
	fork := *o
	fork.rows = nil
	return &fork
}

func (o *Owner) Reset() {
	if o.rows == nil {
		o.rows = make([][]float64, o.MinSep+1)
		for i := range o.rows {
			o.rows[i] = make([]float64, len(o.States))
		}
	}
	for _, row := range o.rows {
		clear(row)
	}
}

func (o *Owner) Step(i int, u float64) {
	row := o.rows[i%len(o.rows)]
	for s := range o.States {
		state := &o.States[s]
		overlap := 0.0
		for _, age := range state.Ages {
			overlap += o.cross.At(i, age)
		}
		total := math.Inf(-1)
		for j, way := range state.Ways {
			m := float64(j)
			ahead := o.rows[(i+way.Ahead)%len(o.rows)][way.State]
			total = LogSum(total, way.LogProb+m*(u-overlap)-m*m*o.norms[i]/2+ahead)
		}
		row[s] = total
	}
}

func (o *Owner) LogRatio() float64 {
	total := math.Inf(-1)
	for _, s := range o.Starts {
		total = LogSum(total, s.LogProb+o.rows[s.Row%len(o.rows)][s.State])
	}
	return total
}

// SampledOwner is the likelihood ratio of Algorithm 3 on the examples of one owner alone
// (F4.4): in every step Binom(k, p) of them are sampled, and they participate unless one was
// sampled in the b-1 steps before. Stationary with WarmStart. It is not proven to bound the
// privacy of the whole mechanism: see the package that serves it.
type SampledOwner struct {
	Process
	Examples int
	Norms    []float64 // ‖c_i‖²/σ²

	ring  []float64
	next  float64
	log   []float64 // ln Pr[Binom(k, p) = j]
	terms []float64
}

// Fork shares the norms.
func (o *SampledOwner) Fork() Ratio {
	return &SampledOwner{Process: o.Process, Examples: o.Examples, Norms: o.Norms}
}

func (o *SampledOwner) Reset() {
	if o.ring == nil {
		o.ring = make([]float64, o.MinSep)
		o.terms = make([]float64, o.Examples)
		for j := range o.Examples + 1 {
			o.log = append(o.log, logBinomial(o.Examples, j, o.Prob))
		}
	}
	clear(o.ring)
	o.next = 0
}

// Step: F_i = F_{i+1} + q^{b-1} F_{i+b} (A_i - (1-q)), with the exponent min(b-1, i) after a cold
// start.
func (o *SampledOwner) Step(i int, u float64) {
	logQ := o.log[0]
	for j := range o.terms {
		m := float64(j + 1)
		o.terms[j] = o.log[j+1] + m*u - m*m*o.Norms[i]/2
	}
	logA := logSum(o.terms)
	silent := o.MinSep - 1
	if !o.WarmStart {
		silent = min(silent, i)
	}
	slot := &o.ring[i%o.MinSep]
	weight := timesLog(silent, logQ) + *slot - o.next
	logSampled := log1mexp(logQ)
	switch {
	case math.IsInf(weight, -1):
	case logA >= logSampled:
		o.next += LogSum(0, weight+logA+log1mexp(logSampled-logA))
	default:
		o.next += math.Log1p(-math.Exp(weight + logSampled + log1mexp(logA-logSampled)))
	}
	*slot = o.next
}

func (o *SampledOwner) LogRatio() float64 { return o.next }
