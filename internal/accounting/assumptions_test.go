package accounting

import (
	"slices"
	"strings"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/sampling"
)

// TestAssumptions: a certificate names what each direction rests on, whichever of them was sampled,
// and the samples of smaller candidates too.
func TestAssumptions(t *testing.T) {
	const rejected, verified = 0.5, 1.0
	trial := func(d montecarlo.Direction, m Method) Trial {
		if m == MonteCarlo {
			return Trial{Direction: d, Method: m, Bound: 1, Samples: 100}
		}
		return Trial{Direction: d, Method: m, Bound: 1e-3}
	}
	const domination, ratios, release, bound, composed, truncated = "F3.0a; arXiv 2310.15526", "Theorem 5.1", "Theorem A.1", "F5.10", "F3.5, F6", "F3.6"
	for _, c := range []struct {
		name   string
		p, q   Method // of the released candidate
		below  bool   // a smaller one was sampled and rejected
		change func(*Run)
		method Method
		want   []string
		not    []string
	}{
		{"sampled", MonteCarlo, MonteCarlo, false, nil, MonteCarlo, []string{domination, ratios, release}, []string{bound, composed, truncated}},
		{"Q bounded", MonteCarlo, RenyiBound, false, nil, MonteCarlo, []string{domination, ratios, release, bound}, []string{composed}},
		{"P bounded", RenyiBound, MonteCarlo, false, nil, MonteCarlo, []string{domination, ratios, release, bound}, []string{composed}},
		{"bounded", RenyiBound, RenyiBound, false, nil, MonteCarlo, []string{domination, bound}, []string{ratios, release}},
		{"bounded above samples", RenyiBound, RenyiBound, true, nil, MonteCarlo, []string{domination, bound, release}, nil},
		{"composed", PLD, PLD, false, nil, PLD, []string{domination, composed}, []string{release, bound}},
		{"truncated", MonteCarlo, MonteCarlo, false, func(r *Run) { r.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 1} }, MonteCarlo, []string{truncated, release}, nil},
		{"P without amplification", ClosedForm, RenyiBound, false, nil, MonteCarlo, []string{domination, bound, "F5.16"}, []string{ratios, release, composed}},
		{"closed form", ClosedForm, ClosedForm, false, nil, ClosedForm, []string{"F2", "Theorem 8"}, []string{domination, release, "section 2"}},
		{"not proven", Unproven, Unproven, false, nil, Unproven, []string{"F4.1"}, []string{domination}},
	} {
		p := &Protocol{Run: toyRun()}
		if c.change != nil {
			c.change(&p.Run)
		}
		if c.below {
			p.Candidates = append(p.Candidates, Candidate{rejected, []Trial{trial("P", MonteCarlo), trial("Q", MonteCarlo)}})
		}
		p.Candidates = append(p.Candidates, Candidate{verified, []Trial{trial("P", c.p), trial("Q", c.q)}})
		certificate := &Certificate{Points: []Claimed{{Directions: []Verdict{{Direction: "P", Method: c.p}, {Direction: "Q", Method: c.q}}}}}
		list := p.assumptions(c.method, certificate)
		has := func(part string) bool {
			return slices.ContainsFunc(list, func(a Assumption) bool { return strings.Contains(a.Source, part) })
		}
		for _, want := range c.want {
			if !has(want) {
				t.Errorf("%s: nothing from %s in %v", c.name, want, list)
			}
		}
		for _, not := range c.not {
			if has(not) {
				t.Errorf("%s: something from %s in %v", c.name, not, list)
			}
		}
	}
}
