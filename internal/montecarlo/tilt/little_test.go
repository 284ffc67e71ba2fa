package tilt_test

import (
	"errors"
	"math"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestTooLittleNoise: where no order serves at a noise multiplier and one does at a larger one, the
// error is one of tables, so that searches go on with more noise.
func TestTooLittleNoise(t *testing.T) {
	toeplitz := must.Get(mechanism.Problem{Workload: mechanism.Prefix(16)}.Make(t.Context(), mechanism.KindBandedToeplitz, 4))(t)
	run := accounting.Run{Sampler: sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 16, EpochSteps: 8, MinSep: 4}}, Strategy: toeplitz, MaxExamplesPerOwner: 8}
	propose := func(noiseMultiplier float64) error {
		_, err := tilt.NewProposal(t.Context(), tilt.Config{Spec: run.Loss(noiseMultiplier), Epsilon: 8, Direction: montecarlo.P}, math.Inf(1))
		return err
	}
	if err := propose(.2); !errors.Is(err, tilt.ErrNotTilted) || !errors.Is(err, tilt.ErrTable) {
		t.Errorf("at too little noise: %v", err)
	}
	if err := propose(4); err != nil {
		t.Errorf("at more noise: %v", err)
	}
}
