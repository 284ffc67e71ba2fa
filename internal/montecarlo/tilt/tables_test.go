package tilt

import (
	"slices"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/stream"
	"minsep/sampling"
)

// TestTablesServeVerifiers: with the tables that a proposal was chosen by, a verifier has the very
// values that it has without; and it does not take those of another noise multiplier.
func TestTablesServeVerifiers(t *testing.T) {
	c := toeplitz(24, 1, .5, .375)
	for name, s := range map[string]montecarlo.Spec{
		"balls-in-bins":          specOf(sampling.BallsInBins{Steps: 24, Period: 6}, c, 1),
		"epoch-min-sep":          specOf(sampling.EpochMinSep{Steps: 24, MinSep: 3, EpochSteps: 8}, c, 1),
		"rotation":               specOf(sampling.Rotation{Steps: 24, EpochSteps: 8}, c, 1),
		"epoch-min-sep, once":    specOf(sampling.EpochMinSep{Steps: 24, MinSep: 3, EpochSteps: 24}, c, 1),
		"b-min-sep, once":        specOf(sampling.BMinSep{Prob: .1, Steps: 24, MinSep: 24, WarmStart: true}, c, 1),
		"b-min-sep":              specOf(sampling.BMinSep{Prob: .1, Steps: 24, MinSep: 3, WarmStart: true}, c, 1),
		"two examples per owner": ownersOf(specOf(sampling.EpochMinSep{Steps: 24, MinSep: 3, EpochSteps: 8}, c, 1), 2),
	} {
		config := Config{s, 1, montecarlo.P}
		p, tables, err := NewProposalWithin(t.Context(), config, 1e6)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m := p.Moment
		if has := tables.of(config, m) != nil; has != (m.Order > 1 && m.Block == 0) {
			t.Errorf("%s, order %d: has tables to draw from: %v", name, m.Order, has)
		}
		other := config
		other.Spec.NoiseMultiplier = 1.2
		if tables.of(other, m) != nil {
			t.Errorf("%s, order %d: tables serve another noise multiplier", name, m.Order)
		}
		key := stream.PublicKey("tables", nil)
		var values [2][64]float64
		for i, make := range []func(Proposal, stream.Key) (*Verifier, error){NewVerifier, tables.NewVerifier} {
			v, err := make(p, key)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			v.Values(values[i][:], 0)
		}
		if slices.Max(values[0][:]) <= p.Slack*p.Bound {
			t.Errorf("%s: all values are 0", name)
		}
		if values[0] != values[1] {
			t.Errorf("%s: other values with the tables of the proposal", name)
		}
	}
}
