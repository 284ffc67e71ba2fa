package stages

import (
	"errors"
	"strings"
	"testing"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestMostPerOwner: k_u beyond what there are losses for is refused with where it comes from, and
// only where samples are drawn.
func TestMostPerOwner(t *testing.T) {
	run := accounting.Run{
		Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 8, MinSep: 2}},
		Strategy:            &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, 0.5}},
		MaxExamplesPerOwner: montecarlo.MaxPerOwner + 1,
	}
	var bad *ParamError
	if err := (Account{Bounded: "hot"}).checkMost(run); !errors.As(err, &bad) || bad.Param != "bounded" || bad.Value != "hot" || !strings.Contains(bad.Rule, "owner with 1001 examples") {
		t.Errorf("of the table: %v", err)
	}
	if err := (Account{Bounded: "hot", MaxPerOwner: 1001}).checkMost(run); !errors.As(err, &bad) || bad.Param != "max per owner" || bad.Value != 1001 {
		t.Errorf("of the flag: %v", err)
	}
	run.Sampler, run.Strategy.Toeplitz = sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 8}}, []float64{1}
	if err := (Account{Bounded: "hot"}).checkMost(run); err != nil {
		t.Errorf("without samples: %v", err)
	}
	run.MaxExamplesPerOwner--
	run.Sampler = sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 8, MinSep: 2}}
	if err := (Account{}).checkMost(run); err != nil {
		t.Errorf("1000 examples: %v", err)
	}
}
