package planner

import (
	"math"
	"minsep/accounting/calibration"
	"testing"
)

// TestPlanTogether: trainings by the claim of each are within the budget of all, by the points of
// the first row or by its losses, and use most of it.
func TestPlanTogether(t *testing.T) {
	for name, change := range map[string]func(r *Request){
		"points": func(r *Request) { r.Schemes, r.Kinds = []string{"epoch-min-sep"}, []string{"bsr"} },
		"losses": func(r *Request) { r.Schemes = []string{"poisson"} },
	} {
		r := small()
		r.Epsilon, r.Delta = 6, 1e-3
		change(&r)
		out, err := r.PlanTogether(t.Context(), 8)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		each, all := out.Request, out.Request.Together
		if all == nil || all.Trainings != 8 || all.Epsilon != 6 || all.Delta != 1e-3 || 8*each.Delta >= all.Delta || each.Epsilon >= all.Epsilon {
			t.Fatalf("%s: (%g, %g) of %+v", name, each.Epsilon, each.Delta, all)
		}
		if all.First > 1.02*all.Epsilon || all.First < .9*all.Epsilon {
			t.Errorf("%s: %g of %g", name, all.First, all.Epsilon)
		}
		plan := out.RunPlan(out.Rows[0], nil)
		if plan.Privacy.Epsilon != each.Epsilon || len(plan.Privacy.AlsoEpsilon) < 6 {
			t.Errorf("%s: %+v", name, plan.Privacy)
		}
		if name != "losses" {
			continue
		}
		// Eight trainings of DP-SGD are one of eight times the steps.
		of := out.Rows[0].run
		sampler := *of.Sampler.Poisson
		sampler.Steps *= 8
		of.Sampler.Poisson = &sampler
		composition, err := calibration.Claim{Run: of, Epsilon: 6, Delta: 1e-3}.Compose(out.Rows[0].Noise.Multiplier)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := composition.Epsilon(1e-3); err != nil || math.Abs(b.Upper/all.First-1) > .01 {
			t.Errorf("%g, of eight times the steps %g; %v", all.First, b.Upper, err)
		}
	}
	r := small()
	for _, trainings := range []int{-1, 1, mostTogether + 1} {
		if _, err := r.PlanTogether(t.Context(), trainings); err == nil {
			t.Errorf("%d trainings", trainings)
		}
	}
}
