package tilt

import (
	"slices"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/stream"
)

// TestTablesServeVerifiers: with the tables that a proposal was chosen by, a verifier has the very
// values that it has without; and it does not take those of another noise multiplier.
func TestTablesServeVerifiers(t *testing.T) {
	c := toeplitz(24, 1, .5, .375)
	for name, s := range map[string]montecarlo.Spec{
		"balls-in-bins":          {Scheme: montecarlo.BallsInBins, Steps: 24, MinSep: 6, Strategy: c},
		"epoch-min-sep":          {Scheme: montecarlo.EpochMinSep, Steps: 24, MinSep: 3, EpochSteps: 8, Strategy: c},
		"rotation":               {Scheme: montecarlo.Rotation, Steps: 24, MinSep: 1, EpochSteps: 8, Strategy: c},
		"epoch-min-sep, once":    {Scheme: montecarlo.EpochMinSep, Steps: 24, MinSep: 3, EpochSteps: 24, Strategy: c},
		"b-min-sep, once":        {Scheme: montecarlo.BMinSep, Steps: 24, MinSep: 24, Prob: .1, WarmStart: true, Strategy: c},
		"b-min-sep":              {Scheme: montecarlo.BMinSep, Steps: 24, MinSep: 3, Prob: .1, WarmStart: true, Strategy: c},
		"two examples per owner": {Scheme: montecarlo.EpochMinSep, Steps: 24, MinSep: 3, EpochSteps: 8, Strategy: c, MaxExamplesPerOwner: 2},
	} {
		s.NoiseMultiplier = 1.1
		config := Config{s, 1, montecarlo.P}
		p, tables, err := NewProposalWithin(t.Context(), config, 1e6)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, m := range p.Members {
			wanted := m.Order > 1 && m.Block == 0
			if has := tables.of(config, m) != nil; has != wanted {
				t.Errorf("%s, order %d: has tables to draw from: %v", name, m.Order, has)
			}
			if m.Block > 0 {
				continue
			}
			other := config
			other.Spec.NoiseMultiplier = 1.2
			if tables.of(other, m) != nil {
				t.Errorf("%s, order %d: tables serve another noise multiplier", name, m.Order)
			}
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
