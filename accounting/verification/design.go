package verification

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/internal/param"
	"minsep/sampling/stream"
)

// Ratio is that of neighbouring candidates (003, Appendix A).
const Ratio = 1.01

// Options say how much to spend. The zero value accepts means up to .8 δ whatever the samples.
type Options struct {
	Samples     uint64  // budget of all trials together; the largest δ' that it allows is chosen. 0: no budget
	Accept      float64 // δ'/δ without a budget, and where the estimate aims; 0 means 0.8
	CodeVersion string
	PlanSHA256  string
}

// provableShare of δ is what the last candidate is proven for: it must not exceed δ_v.
const provableShare = 0.9

// Design fixes a protocol that verifies (epsilon, delta) for a run. A run with a closed form or a privacy loss distribution has one
// candidate and no samples. Others, where tilted sampling applies, have a last candidate that is proven by a Rényi bound and up to four smaller
// ones around the estimate. The error wraps tilt.ErrNotTilted where only plain sampling is left.
func Design(run accounting.Run, epsilon, delta float64, o Options) (*accounting.Protocol, error) {
	c := param.Checker{Package: "verification"}
	c.Require(o.Accept >= 0 && o.Accept < 1, "accept", o.Accept, "must be at least 0 and below 1")
	if err := c.Err(); err != nil {
		return nil, err
	}
	method, err := run.Method()
	if err != nil {
		return nil, err
	}
	p := &accounting.Protocol{Format: 1, Run: run, CodeVersion: o.CodeVersion, PlanSHA256: o.PlanSHA256,
		Points: []accounting.Point{{Epsilon: epsilon, Delta: delta, Thresholds: accounting.Thresholds{Verify: delta}}}}
	switch method {
	case accounting.ClosedForm, accounting.PLD:
		err = designProof(p, method)
	case accounting.MonteCarlo:
		err = designSamples(p, o)
	default:
		err = fmt.Errorf("%w: %s", accounting.ErrNotVerified, method)
	}
	if err != nil {
		return nil, err
	}
	return p, p.Validate()
}

func designProof(p *accounting.Protocol, method accounting.Method) error {
	pt := p.Points[0]
	sigma, err := p.Run.Calibrate(pt.Epsilon, pt.Delta)
	if err != nil {
		return err
	}
	pq, qp, err := p.Run.Prove(sigma.Upper, pt.Epsilon)
	if err != nil {
		return err
	}
	p.Candidates = []accounting.Candidate{{NoiseMultiplier: sigma.Upper, Trials: []accounting.Trial{
		{Direction: montecarlo.P, Method: method, Bound: pq.Upper},
		{Direction: montecarlo.Q, Method: method, Bound: qp.Upper},
	}}}
	return nil
}

func designSamples(p *accounting.Protocol, o Options) error {
	pt := p.Points[0]
	accept := o.Accept
	if accept == 0 {
		accept = 0.8
	}
	largest := 0.0
	for _, norm := range p.Run.Strategy.ColumnNorms() {
		largest = max(largest, norm)
	}
	proven, err := tilt.SmallestProvable(p.Run.Loss(largest), pt.Epsilon, provableShare*pt.Delta)
	if err != nil {
		return err
	}
	// Candidate j has noise proven/Ratio^j. The estimate is taken at its upper end, two standard errors up.
	plans := map[int][2]tilt.Plan{0: proven.Plans}
	passes := func(j int) (bool, error) {
		pair, err := plansAt(p.Run, pt.Epsilon, proven.NoiseMultiplier*math.Pow(Ratio, -float64(j)))
		if errors.Is(err, tilt.ErrTable) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		plans[j] = pair
		for _, plan := range pair {
			mean, err := estimate(plan, pt.Delta)
			if err != nil || mean > accept*pt.Delta {
				return false, err
			}
		}
		return true, nil
	}
	const stride = 3       // far below the answer samples are dear
	low, high := 0, stride // low passes
	for {
		ok, err := passes(high)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		low, high = high, high+stride
	}
	for high-low > 1 {
		mid := (low + high) / 2
		ok, err := passes(mid)
		if err != nil {
			return err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	return fill(p, o, accept, proven.NoiseMultiplier, low, plans)
}

// fill writes candidates and thresholds: the estimated one, the next smaller, two larger, and the proven one.
func fill(p *accounting.Protocol, o Options, accept, sigma float64, estimated int, plans map[int][2]tilt.Plan) error {
	pt := &p.Points[0]
	var bounds []float64
	for j := estimated + 1; j >= 0; j-- {
		if j > 0 && j < estimated-2 {
			continue
		}
		at := sigma * math.Pow(Ratio, -float64(j))
		pair, ok := plans[j]
		if !ok {
			var err error
			if pair, err = plansAt(p.Run, pt.Epsilon, at); errors.Is(err, tilt.ErrTable) {
				continue
			} else if err != nil {
				return err
			}
		}
		candidate := accounting.Candidate{NoiseMultiplier: at}
		for _, plan := range pair {
			trial, err := trialOf(plan, pt.Delta)
			if err != nil {
				return err
			}
			candidate.Trials = append(candidate.Trials, trial)
			if trial.Method == accounting.MonteCarlo {
				bounds = append(bounds, trial.Bound)
			}
		}
		p.Candidates = append(p.Candidates, candidate)
	}
	if len(bounds) == 0 { // proven throughout
		return nil
	}
	claim := accounting.Claim{Delta: pt.Delta}
	thresholds, samples, err := claim.Samples(accept*pt.Delta, bounds)
	if o.Samples > 0 {
		thresholds, samples, err = claim.Spend(bounds, o.Samples)
	}
	if err != nil {
		return err
	}
	pt.Thresholds, p.KernelID = thresholds, montecarlo.KernelID()
	next := 0
	for _, candidate := range p.Candidates {
		for i := range candidate.Trials {
			t := &candidate.Trials[i]
			if t.Method != accounting.MonteCarlo {
				continue
			}
			if t.Samples = samples[next]; t.Samples == 0 { // its bound is at most δ_v
				t.Method = accounting.RenyiBound
			}
			next++
		}
	}
	return nil
}

// trialOf is the trial of a plan: proven, or with samples to be filled in.
func trialOf(plan tilt.Plan, delta float64) (accounting.Trial, error) {
	plan.Spec.Strategy = nil
	values, err := json.Marshal(Values{&plan})
	t := accounting.Trial{Direction: plan.Direction, Method: accounting.MonteCarlo, Bound: plan.Bound, Values: values}
	if plan.Divergence <= provableShare*delta {
		t.Method, t.Bound = accounting.RenyiBound, plan.Divergence
	}
	return t, err
}

func plansAt(run accounting.Run, epsilon, noiseMultiplier float64) (pair [2]tilt.Plan, err error) {
	for i, d := range montecarlo.Directions {
		pair[i], err = tilt.NewPlan(tilt.Config{Spec: run.Loss(noiseMultiplier), Epsilon: epsilon, Direction: d})
		if err != nil {
			return pair, err
		}
	}
	return pair, nil
}

// estimate is the upper end of an estimate of a plan's divergence, with a key apart from every verifier's.
func estimate(plan tilt.Plan, delta float64) (float64, error) {
	if plan.Divergence <= delta/100 {
		return plan.Divergence, nil
	}
	config, err := json.Marshal(plan)
	if err != nil {
		return 0, err
	}
	v, err := tilt.NewVerifier(plan, stream.PublicKey("estimate", config))
	if err != nil {
		return 0, err
	}
	e, err := v.Estimate(max(4000, 15*plan.MinSamples(delta)), delta)
	return min(e.Mean+2*e.StdErr, plan.Divergence), err
}
