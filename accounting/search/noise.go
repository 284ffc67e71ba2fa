package search

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/accounting/montecarlo"
)

// Noise is the noise multiplier that a candidate needs: the smallest σ at which it is (ε,
// δ)-differentially private.
type Noise struct {
	Multiplier float64 `json:"noise_multiplier"` // σ, above 0
	StdErr     float64 `json:"std_err"`          // of Multiplier, at least 0; 0 if it is proven
	Proven     bool    `json:"proven"`           // without samples: Multiplier is enough. The search ends at most 0.05 % above the smallest; a grid of losses adds about 1e-3 to ε besides, or 2.5e-4 of an ε above 4

	// OneDirection says that only H(P,Q) was looked at: the noise multiplier is at least
	// Multiplier.
	OneDirection bool `json:"one_direction,omitempty"`

	Samples uint64  `json:"samples,omitempty"` // that were drawn; 0 if it is proven
	Effort  float64 `json:"effort,omitempty"`  // M/δ at Multiplier, above 0, of the direction with the larger M: a verification draws a multiple of it; the M/δ of H(Q,P) counts as a fifteenth where it is far below δ, as it then takes so many samples; 0 if it is proven

	reverse float64 // the part of Effort that is of H(Q,P), where it was looked at

	floor float64   // the noise multiplier that H(Q,P) needs, where it was looked for
	found *searcher // the search for H(P,Q); nil if it is proven
	pace  Pace      // that it found
	norm  float64   // largest column norm of C, where Find found it
}

// Errors of candidates without a noise multiplier. Neither is a fault of the request: an
// estimate found nothing, or it would take too many samples.
var (
	ErrNoEstimate = errors.New("search: no estimate")
	ErrTooDear    = errors.New("search: an estimate takes too many samples")
)

// Both looks at H(Q,P) at the noise multiplier of n, to the standard error [Tolerance]: where
// H(Q,P) may be above δ, the noise multiplier becomes the larger of both directions.
func (c Claim) Both(ctx context.Context, n Noise) (Noise, error) {
	const tolerance = Tolerance
	if !n.OneDirection {
		return n, nil
	}
	s, err := c.searcher(montecarlo.Q, UnknownPace)
	if err != nil {
		return n, err
	}
	s.below, s.part = true, 1 // it must be told on which side of δ it is
	short, err := s.look(ctx, math.Log(n.Multiplier), tolerance)
	if err != nil {
		return n, err
	}
	l := s.looks[0]
	n.Samples, n.OneDirection = n.Samples+l.samples, false
	if short {
		return n, fmt.Errorf("%w: more than %d for H(Q,P)", ErrTooDear, l.samples)
	}
	n.reverse = FarShare * math.Exp(l.logBound)
	n.Effort = max(n.Effort, n.reverse)
	if l.gap < -Apart*l.gapErr || l.seen < leastCount {
		return n, nil
	}
	s.below = false
	other, err := s.sigma(ctx, math.Exp(min(l.x+Farthest, max(l.x-Farthest, s.fit().X))), tolerance, math.Inf(1))
	if err != nil {
		return n, err
	}
	n.Samples, n.floor = other.Samples+n.Samples, other.Multiplier
	n.reverse = other.Effort
	n.Effort = max(n.Effort, n.reverse)
	if other.Multiplier > n.Multiplier {
		n.Multiplier, n.StdErr = other.Multiplier, other.StdErr
	}
	return n, nil
}

// Both is [Claim.Both] for the claim that Find found n for.
func (n Noise) Both(ctx context.Context) (Noise, error) {
	if !n.OneDirection {
		return n, nil
	}
	return n.found.Both(ctx, n)
}

// Refine estimates n to a smaller standard error of ln σ, and leaves it as it is where that takes
// too many samples.
func (n Noise) Refine(ctx context.Context, tolerance float64) (Noise, error) {
	if n.Proven || n.StdErr <= tolerance*n.Multiplier {
		return n, nil
	}
	n.found.part = 1
	finer, err := n.found.sigma(ctx, n.Multiplier, tolerance, math.Inf(1))
	switch {
	case errors.Is(err, ErrTooDear):
		return n, nil
	case err != nil:
		return n, err
	}
	// The other direction was below δ at nearly the same noise multiplier.
	finer.OneDirection, finer.floor = n.OneDirection, n.floor
	finer.Multiplier = max(finer.Multiplier, n.floor)
	return finer, nil
}

// Pace is the pace that the search for n found.
func (n Noise) Pace() Pace { return n.pace }

// WithEffort returns n with this Effort, or with the effort of H(Q,P) where that was looked at and
// is larger.
func (n Noise) WithEffort(effort float64) Noise {
	n.Effort = max(effort, n.reverse)
	return n
}
