package planner

import (
	"context"
	"fmt"
	"math"
	"slices"

	"minsep/accounting/calibration"
	"minsep/accounting/pld"
	"minsep/internal/bisect"
	"minsep/internal/digits"
)

// Together is a budget for several trainings of one plan, and the part for each.
type Together struct {
	Trainings int     `json:"trainings"` // at least 2
	Epsilon   float64 `json:"epsilon"`   // of all of them together
	Delta     float64 `json:"delta"`     // likewise

	// First is about the ε of so many trainings by the first row, at Delta: of its losses where they
	// are known, else of estimates of the points that its certificate will have.
	First float64 `json:"first"`
}

// mostTogether bounds how many trainings are planned for together.
const mostTogether = 10_000

// PlanTogether is the plan for so many trainings, within r's Epsilon and Delta together.
func (r Request) PlanTogether(ctx context.Context, trainings int) (*Result, error) {
	if err := r.forTrainings(trainings); err != nil {
		return nil, err
	}
	for pass := 1; ; pass++ {
		out, err := r.Plan(ctx)
		if err != nil {
			return out, err
		}
		t := *r.Together
		if t.First, err = out.composed(ctx); err != nil {
			return out, err
		}
		out.Request.Together = &t
		if miss := t.First/t.Epsilon - 1; pass == mostPasses || miss <= 0 && miss > -(calibration.Little-1) {
			return out, nil
		}
		r.Epsilon = digits.Down(min(t.Epsilon, r.Epsilon*max(.3, min(2, t.Epsilon/t.First/solved))), 3)
	}
}

// mostPasses bounds how often a plan is made again for another ε of each training.
const mostPasses = 4

// composed is Together.First.
func (out *Result) composed(ctx context.Context) (float64, error) {
	r, row := out.Request, out.Rows[0]
	training := pld.Training{Count: r.Together.Trainings}
	if row.Noise.Proven {
		events, err := row.run.Events(row.Noise.Multiplier)
		if err != nil {
			return 0, err
		}
		training.Events = events
	} else {
		training.Points = []pld.Point{{Epsilon: r.Epsilon, Delta: r.Delta}}
		for _, epsilon := range r.further() {
			c := calibration.Claim{Run: row.run.Untruncated(), Epsilon: epsilon, Delta: r.Delta, Seed: r.Seed}
			delta, err := c.Divergence(ctx, row.Noise.Multiplier)
			if err != nil {
				return 0, err
			}
			training.Points = append(training.Points, pld.Point{Epsilon: epsilon, Delta: min(1, delta*slackOfPoints)})
		}
	}
	all, err := pld.Together([]pld.Training{training})
	if err != nil {
		return 0, err
	}
	b, err := all.Epsilon(r.Together.Delta)
	return b.Upper, err
}

// forTrainings makes r the request for each of so many trainings, from the Epsilon and Delta of
// all of them together. A training gets the ε and δ with which DP-SGD, of the first population
// and batch size, needs the least noise, where the trainings are composed by the points that
// each certifies (also_epsilon of what is written). Other mechanisms have another δ at these,
// see [Request.PlanTogether].
func (r *Request) forTrainings(trainings int) error {
	if trainings < 2 || trainings > mostTogether {
		return &ParamError{Package: "planner", Param: "trainings", Value: trainings, Rule: fmt.Sprintf("must be 2 to %d", mostTogether)}
	}
	if err := r.Validate(); err != nil {
		return err
	}
	together := Together{Trainings: trainings, Epsilon: r.Epsilon, Delta: r.Delta}
	of := r.Populations[0]
	units := of.Examples
	if of.Owners > 0 && r.Sample != "" {
		units = of.Owners
	}
	d := DPSGD{Epsilon: r.Epsilon, Delta: r.Delta, Steps: r.Steps, Units: units, MaxPerOwner: 1}
	best := math.Inf(1)
	for _, share := range shares {
		d.Delta = digits.Down(share*together.Delta/float64(trainings), 3)
		epsilon, sigma, err := d.epsilonOfEach(r.BatchSizes[0], together)
		if err != nil {
			return err
		}
		if sigma < best {
			best, r.Epsilon, r.Delta = sigma, epsilon, d.Delta
		}
	}
	if math.IsInf(best, 1) {
		return &ParamError{Package: "planner", Param: "trainings", Value: trainings, Rule: fmt.Sprintf("no noise is found that leaves (%.4g, %g) for all of them: take fewer, or a larger epsilon", together.Epsilon, together.Delta)}
	}
	r.Together = &together
	return nil
}

// epsilonOfEach is the largest ε of a training, with d.Delta, of three digits, at which trainings
// are within their budget together, and the noise multiplier of DP-SGD there; infinite where there
// is none.
func (d DPSGD) epsilonOfEach(batch float64, together Together) (epsilon, sigma float64, err error) {
	fits := func(x float64) (bool, float64, error) {
		each := d
		each.Epsilon = x
		sigma, err := each.NoiseMultiplier(batch)
		if err != nil || sigma == 0 {
			return err == nil, sigma, err
		}
		composition, err := each.claim(batch).Compose(sigma)
		if err != nil {
			return false, 0, err
		}
		points := []pld.Point{{Epsilon: x, Delta: d.Delta}}
		for _, smaller := range parts(x, togetherParts) {
			delta, err := composition.UpperDelta(smaller)
			if err != nil {
				return false, 0, err
			}
			points = append(points, pld.Point{Epsilon: smaller, Delta: min(1, delta*slackOfPoints)})
		}
		all, err := pld.Together([]pld.Training{{Points: points, Count: together.Trainings}})
		if err != nil {
			return false, 0, err
		}
		delta, err := all.UpperDelta(together.Epsilon)
		return delta <= together.Delta, sigma, err
	}
	low, high := math.Log(together.Epsilon/float64(together.Trainings)/4), math.Log(together.Epsilon)
	sigma = math.Inf(1)
	bisect.Between(low, high, 2e-2, func(logEpsilon float64) bool {
		if err != nil {
			return false
		}
		var ok bool
		var needs float64
		x := digits.Down(math.Exp(logEpsilon), 3)
		if ok, needs, err = fits(x); ok && err == nil {
			epsilon, sigma = x, needs
		}
		return ok
	})
	return epsilon, sigma, err
}

// further are the smaller ε at which the written plan has δ certified too.
func (r *Request) further() []float64 {
	if r.Together != nil {
		return parts(r.Epsilon, togetherParts)
	}
	return further(r.Epsilon)
}

// parts are parts of ε, of three digits, each once and below it.
func parts(epsilon float64, of []float64) (list []float64) {
	for _, part := range of {
		x := digits.Nearest(part*epsilon, 3)
		if x > 0 && x < epsilon && !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}
