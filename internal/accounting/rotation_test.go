package accounting

import (
	"testing"

	"minsep/internal/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestRotationIsEpochMinSep: without a least distance an epoch is a period, whoever takes part.
func TestRotationIsEpochMinSep(t *testing.T) {
	for _, steps := range []int{12, 14} {
		epochs := Run{Sampler: sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: steps, MinSep: 1, EpochSteps: 4}}, Strategy: mechanism.Identity(steps), MaxExamplesPerOwner: 1}
		rotation := epochs
		rotation.Sampler = sampling.Spec{Rotation: &sampling.Rotation{Steps: steps, EpochSteps: 4}}
		pq, qp, err := epochs.Prove(0.7, 2)
		if err != nil {
			t.Fatal(err)
		}
		samePQ, sameQP, err := rotation.Prove(0.7, 2)
		if err != nil || samePQ != pq || sameQP != qp || pq <= 0 || qp <= 0 {
			t.Errorf("%d steps: %+v, %+v and %+v, %+v: %v", steps, pq, qp, samePQ, sameQP, err)
		}
		for _, r := range []*Run{&epochs, &rotation} { // the others of a pool take part as the others of an epoch do
			r.Examples, r.Sampler.Truncation = 400, &sampling.Truncation{MaxBatchSize: 150}
		}
		for _, d := range []montecarlo.Direction{montecarlo.P, montecarlo.Q} {
			want, err := epochs.TruncationCost(d, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := rotation.TruncationCost(d, 2); err != nil || got != want || got.Cost <= 0 {
				t.Errorf("%d steps: truncation costs %+v and %+v: %v", steps, want, got, err)
			}
		}
	}
}
