package planner

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/accounting"
	"minsep/accounting/pld"
	"minsep/mechanism"
	"minsep/sampling"
)

// solved is how close the batch size that Solve finds is to the least, as a factor.
const solved = 1.02

// Solve finds the least batch size between the first and the last of the request's at which the
// best mechanism has at most the target as noise relative to the batch, to a factor of 1.02, and
// makes the plan for it. Noise relative to the batch falls with the batch size.
func (r Request) Solve(ctx context.Context, target float64) (*Result, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if !(target > 0) {
		return nil, &ParamError{Package: "planner", Param: "target", Value: target, Rule: "must be above 0"}
	}
	low, high := r.BatchSizes[0], r.BatchSizes[len(r.BatchSizes)-1]
	at := func(r Request, batch float64) (*Result, error) {
		r.BatchSizes = []float64{batch}
		return r.Plan(ctx)
	}
	out, err := at(r, high)
	if err != nil {
		return out, err
	}
	if best := out.Rows[0].Relative; best > target {
		return nil, &ParamError{Package: "planner", Param: "target", Value: target, Rule: fmt.Sprintf("is not reached: batches of %g have %.4g; give larger batch sizes, or fewer steps", high, best)}
	}
	narrow := r
	narrow.Schemes, narrow.Kinds = []string{out.Rows[0].Scheme.Scheme}, []string{out.Rows[0].Strategy.Kind}
	reached := func(batch float64) (bool, error) {
		one, err := at(narrow, batch)
		if errors.Is(err, ErrNone) { // the mechanism cannot be used there
			return false, nil
		}
		return err == nil && one.Rows[0].Relative <= target, err
	}
	if enough, err := reached(low); err != nil {
		return nil, err
	} else if enough {
		high = low
	}
	for high/low > solved && high-low > 1 {
		middle := math.Sqrt(low * high)
		if middle > 100 {
			middle = math.Round(middle)
		}
		enough, err := reached(middle)
		if err != nil {
			return nil, err
		}
		if enough {
			high = middle
		} else {
			low = middle
		}
	}
	if high == r.BatchSizes[len(r.BatchSizes)-1] {
		return out, nil
	}
	return at(r, high)
}

// EpsilonOf is the ε at which independent noise of a multiplier with Poisson sampling, the k_u of
// the first population and the least batch size, is private: the budget of a run that is trained
// with DP-SGD.
func (r Request) EpsilonOf(noiseMultiplier float64) (float64, error) {
	of := r.Populations[0]
	units, perOwner := of.Examples, r.perOwner(of)
	if r.Sample == sampling.SampleOwners {
		units, perOwner = of.Owners, 1
	}
	prob := r.BatchSizes[0] / float64(units)
	if !(noiseMultiplier > 0) || !(prob > 0 && prob <= 1) || r.Steps < 1 {
		return 0, &ParamError{Package: "planner", Param: "noise multiplier", Value: noiseMultiplier, Rule: "must be above 0, with a batch size of at most the examples"}
	}
	run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: prob, Steps: r.Steps}}, Strategy: mechanism.Identity(r.Steps), MaxExamplesPerOwner: perOwner}
	var composition *pld.Composition
	composition, err := claim{run: run}.compose(noiseMultiplier)
	if bad := (*ParamError)(nil); errors.As(err, &bad) { // without the place in a list of steps
		return 0, bad
	}
	if err != nil {
		return 0, err
	}
	b, err := composition.Epsilon(r.Delta)
	if err == nil && math.IsInf(b.Upper, 1) {
		err = &ParamError{Package: "planner", Param: "noise multiplier", Value: noiseMultiplier, Rule: "gives no finite epsilon"}
	}
	return b.Upper, err
}
