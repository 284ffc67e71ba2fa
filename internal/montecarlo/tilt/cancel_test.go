package tilt

import (
	"context"
	"errors"
	"math"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/sampling"
)

// countdown is a context that ends when it was asked so often.
type countdown struct {
	context.Context
	asked, ends int
}

func (c *countdown) Err() error {
	if c.asked++; c.asked > c.ends {
		return context.Canceled
	}
	return nil
}

// TestCancelledProposal: wherever a context ends, so does the search for a proposal, with its
// error, and nothing that asks for it goes on for long.
func TestCancelledProposal(t *testing.T) {
	const direction, most = montecarlo.P, 8
	for name, c := range map[string]Config{
		"blocks":   {specOf(sampling.BMinSep{Prob: .02, Steps: 40, MinSep: 8, WarmStart: true}, toeplitz(40, 1, .6, .4, .3, .2, .2, .1, .1), 2.5), 1, direction},
		"parts":    {specOf(sampling.BMinSep{Prob: 1, Steps: 900, MinSep: 900, WarmStart: true}, toeplitz(900, 1, .5), .5), .7, direction},
		"tangents": {specOf(sampling.EpochMinSep{Steps: 40, MinSep: 4, EpochSteps: 20}, toeplitz(40, 1, .5), .8), 1, montecarlo.Q},
		"owners":   {ownersOf(specOf(sampling.BMinSep{Prob: .1, Steps: 24, MinSep: 4}, toeplitz(24, 1, .5), 1), 3), 1, direction},
	} {
		whole := &countdown{t.Context(), 0, 1 << 40}
		want, err := NewProposal(whole, c, math.Inf(1))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Logf("%s: asks %d times, moment %+v, %d parts", name, whole.asked, want.Moment, want.Parts)
		if whole.asked < 12 {
			t.Errorf("%s: a search asks %d times", name, whole.asked)
		}
		for ends := 0; ends < whole.asked-1; ends += 1 + 2*ends {
			ctx := &countdown{t.Context(), 0, ends}
			p, err := NewProposal(ctx, c, math.Inf(1))
			if !errors.Is(err, context.Canceled) || p.Method != "" || p.Moment.Order > 0 {
				t.Errorf("%s: after %d of %d: %+v, %v", name, ends, whole.asked, p, err)
			}
			if ctx.asked > ends+most {
				t.Errorf("%s: after %d of %d the search asks %d times more", name, ends, whole.asked, ctx.asked-ends)
			}
		}
	}
}
