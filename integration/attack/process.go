package attack

import (
	"math/rand/v2"

	"minsep/internal/param"
	"minsep/sampling"
)

// state determines the law of an example's future participations. The process that uses it says the
// meaning of each field.
type state struct{ blocked, left, due int }

// process is the law of one example's participations: at every step it takes part with a
// probability that depends on its state, which then changes. It is written from the definition of
// the scheme alone.
type process struct {
	// start holds the probabilities of the states before the first step; their sum is 1.
	steps int
	start map[state]float64
	// next returns the probability of taking part at a step, and the states that follow with and
	// without a participation.
	next func(step int, s state) (prob float64, takes, leaves state) // the state after taking part, and after not
}

// newProcess returns the process of one example, or of one owner where owners are sampled. A scheme
// without an audit is a *param.Error.
func newProcess(spec sampling.Spec) (*process, error) {
	switch s := spec.Scheme().(type) {
	case sampling.Poisson:
		return separated(s.Prob, s.Steps, 1, false), nil
	case sampling.BMinSep:
		return separated(s.Prob, s.Steps, s.MinSep, s.WarmStart), nil
	case sampling.BallsInBins:
		return cyclic(1, s.Steps, s.Period), nil
	case sampling.CyclicPoisson:
		if s.SecretPartition {
			return cyclic(s.Prob, s.Steps, s.MinSep), nil
		}
	case sampling.EpochMinSep:
		return epochs(s.Steps, s.MinSep, s.EpochSteps), nil
	case sampling.Rotation:
		return periods(s.Steps, s.EpochSteps), nil
	}
	return nil, &param.Error{Param: "scheme", Value: spec.Kind().Name,
		Rule: "cannot be audited: there are audits for poisson, b-min-sep, balls-in-bins, epoch-min-sep, rotation, and cyclic-poisson with a secret partition"}
}

// separated is b-min-sep sampling: an example takes part with probability p at each step, unless it
// took part in one of the minSep-1 steps before. blocked counts the steps until it is free again. A
// warm start draws it from its stationary distribution.
func separated(p float64, steps, minSep int, warm bool) *process {
	proc := &process{steps: steps, start: map[state]float64{{}: 1}}
	if warm {
		all := 1 + float64(minSep-1)*p
		proc.start[state{}] = 1 / all
		for r := 1; r < minSep; r++ {
			proc.start[state{blocked: r}] = p / all
		}
	}
	proc.next = func(_ int, s state) (float64, state, state) {
		if s.blocked > 0 {
			return 0, s, state{blocked: s.blocked - 1}
		}
		return p, state{blocked: minSep - 1}, state{}
	}
	return proc
}

// cyclic gives an example a turn every period steps, the first at a uniform place. At each turn it
// takes part with probability p. blocked counts the steps until the next turn.
func cyclic(p float64, steps, period int) *process {
	proc := &process{steps: steps, start: map[state]float64{}}
	for r := range period {
		proc.start[state{blocked: r}] = 1 / float64(period)
	}
	proc.next = func(_ int, s state) (float64, state, state) {
		if s.blocked > 0 {
			return 0, s, state{blocked: s.blocked - 1}
		}
		return p, state{blocked: period - 1}, state{blocked: period - 1}
	}
	return proc
}

// epochs has one participation in each epoch of T steps, at least minSep steps after the last one.
// due is the first step at which the example may take part. An example that is free at place v of
// an epoch takes part with probability 1/(T - max(v, minSep-1)).
func epochs(steps, minSep, T int) *process {
	proc := &process{steps: steps, start: map[state]float64{}}
	proc.start[state{}] = float64(T-minSep+1) / float64(T)
	for r := 1; r < minSep; r++ {
		proc.start[state{due: r}] = 1 / float64(T)
	}
	proc.next = func(step int, s state) (float64, state, state) {
		if step < s.due {
			return 0, s, s
		}
		next := max(step+minSep, (step/T+1)*T)
		return 1 / float64(T-max(step%T, minSep-1)), state{due: next}, s
	}
	return proc
}

// periods has one participation at a uniform step of each period of T steps. An owner who has not
// taken part before place v takes part there with probability 1/(T-v), as T-v places are left. due
// is the first step of the next period for an owner who took part.
func periods(steps, T int) *process {
	proc := &process{steps: steps, start: map[state]float64{{}: 1}}
	proc.next = func(step int, s state) (float64, state, state) {
		if step < s.due {
			return 0, s, s
		}
		return 1 / float64(T-step%T), state{due: (step/T + 1) * T}, s
	}
	return proc
}

// draw adds one example's random participations to x, which has an entry for each step.
func (proc *process) draw(x []float64, rng *rand.Rand) {
	u, s := rng.Float64(), state{}
	for _, first := range proc.starts() {
		s = first
		if u -= proc.start[first]; u < 0 {
			break
		}
	}
	for step := range proc.steps {
		prob, takes, leaves := proc.next(step, s)
		if rng.Float64() < prob {
			x[step]++
			s = takes
		} else {
			s = leaves
		}
	}
}

// pattern is a participation vector of one owner and its probability.
type pattern struct {
	times []uint8 // number of the owner's examples that take part at each step
	prob  float64
}

// patterns returns all participation vectors of an owner whose examples follow proc independently,
// or nil if there are more than most.
func (proc *process) patterns(examples, most int) []pattern {
	single := map[string]float64{}
	var walk func(step int, s state, x []byte, prob float64) bool
	walk = func(step int, s state, x []byte, prob float64) bool {
		if len(single) > most {
			return false
		}
		if step == proc.steps {
			single[string(x)] += prob
			return true
		}
		p, takes, leaves := proc.next(step, s)
		ok := true
		if p > 0 {
			x[step] = 1
			ok = walk(step+1, takes, x, prob*p)
			x[step] = 0
		}
		if p < 1 {
			ok = ok && walk(step+1, leaves, x, prob*(1-p))
		}
		return ok
	}
	for _, s := range proc.starts() {
		if !walk(0, s, make([]byte, proc.steps), proc.start[s]) {
			return nil
		}
	}
	all := single
	for range examples - 1 {
		sums := map[string]float64{}
		for a, p := range all {
			for b, q := range single {
				x := []byte(a)
				for i := range x {
					x[i] += b[i]
				}
				sums[string(x)] += p * q
				if len(sums) > most {
					return nil
				}
			}
		}
		all = sums
	}
	return sorted(all)
}
