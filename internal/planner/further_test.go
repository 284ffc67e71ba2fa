package planner

import (
	"slices"
	"testing"

	"minsep/internal/accounting"
)

// TestFurther: a plan has smaller ε certified too, each once and in three digits.
func TestFurther(t *testing.T) {
	for _, c := range []struct {
		epsilon float64
		want    []float64
	}{
		{8, []float64{1, 2, 4, 6}},
		{2.0183, []float64{0.252, 0.505, 1.01, 1.51}},
		{1e6, []float64{125000, 250000, 500000, 750000}},
		{5e-324, nil},
	} {
		if got := further(c.epsilon); !slices.Equal(got, c.want) {
			t.Errorf("of %g: %v, want %v", c.epsilon, got, c.want)
		}
	}
}

// TestWeakPlans: the attacks of a plan are bounded by what it will have certified besides.
func TestWeakPlans(t *testing.T) {
	for _, c := range []struct {
		epsilon, delta   float64
		owners, examples int64
		numbered         bool
		reasons          int
	}{
		{8, 1e-5, 1000, 5000, false, 0},
		{12, 1e-5, 1000, 5000, false, 0}, // ε = 9 may bound them
		{100, 0.5, 1000, 5000, false, 2},
		{100, 1e-5, 0, 5000, false, 1},
		{1, 1e-3, 1000, 5000, false, 1},
		{1, 1e-3, 0, 5000, false, 0}, // their number is not known
		{1, 1e-3, 0, 5000, true, 1},
	} {
		r := Request{Epsilon: c.epsilon, Delta: c.delta, Numbered: c.numbered, Unit: accounting.UnitOwner, Populations: []Population{{Examples: c.examples, Given: c.examples, Owners: c.owners}}}
		if got := r.weak(); len(got) != c.reasons {
			t.Errorf("%+v: %q", c, got)
		}
		shared := r.Populations[0]
		shared.Owners, shared.Protected = 0, c.owners // examples of several owners
		r.Populations = []Population{shared}
		if got := r.weak(); len(got) != c.reasons {
			t.Errorf("%+v, of several owners: %q", c, got)
		}
	}
}
