package planner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/verification"
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
	pace  pace      // that it found
	norm  float64   // largest column norm of C, where Find found it
}

// claim is the claim that a search finds noise for.
type claim struct {
	run            accounting.Run
	epsilon, delta float64
	seed           uint64
	share          float64 // of the samples that an estimate may take, at most 1; 0 for all
}

// Errors of candidates without a noise multiplier. Neither is a fault of the request: an
// estimate found nothing, or it would take too many samples.
var (
	ErrNoEstimate = errors.New("planner: no estimate")
	ErrTooDear    = errors.New("planner: an estimate takes too many samples")
)

// guess is the beginning of a search, by a similar candidate.
type guess struct {
	multiplier float64 // σ, above 0
	pace       pace
	behind     float64 // σ above which it is enough to know it roughly; infinite if there is none
}

// estimate is the noise multiplier by H(P,Q), to a standard error of tolerance as a part of it.
func (c claim) estimate(ctx context.Context, from guess, tolerance float64) (Noise, error) {
	s, err := c.searcher(montecarlo.P, from.pace)
	if err != nil {
		return Noise{}, err
	}
	return s.sigma(ctx, from.multiplier, tolerance, from.behind)
}

// bothDirections looks at H(Q,P) at the noise multiplier of n: where it may be above δ, n becomes
// the larger of the two.
func (c claim) bothDirections(ctx context.Context, n Noise, tolerance float64) (Noise, error) {
	if !n.OneDirection {
		return n, nil
	}
	s, err := c.searcher(montecarlo.Q, unknownPace)
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
	n.reverse = verification.FarShare * math.Exp(l.logBound)
	n.Effort = max(n.Effort, n.reverse)
	if l.gap < -3*l.gapErr || l.seen < leastSum {
		return n, nil
	}
	s.below = false
	other, err := s.sigma(ctx, math.Exp(toward(l.x, s.fit().x)), tolerance, math.Inf(1))
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

// Find is the noise multiplier at which a run without a maximum batch size is (epsilon,
// delta)-differentially private: proven where that takes no samples, else estimated by H(P,Q),
// to a standard error of 0.9 %, or of 3 % where it is clearly above behind (10 % with several
// examples per owner). The search begins near the noise multiplier of a similar run, if near is
// not nil. The error is an accounting.RefusedError where no analysis is known.
func Find(ctx context.Context, run accounting.Run, epsilon, delta float64, near *Noise, behind float64) (Noise, error) {
	method, err := run.Method()
	if err != nil {
		return Noise{}, err
	}
	norm := slices.Max(run.ColumnNorms())
	from := guess{norm, unknownPace, behind}
	if near != nil {
		from.multiplier *= near.Multiplier / near.norm
		if !near.Proven {
			from.pace = near.pace.similar()
		}
	}
	n, err := claim{run: run, epsilon: epsilon, delta: delta}.noise(ctx, method, from)
	n.norm = norm
	return n, err
}

// Both is the result of Find with H(Q,P) looked at too.
func (n Noise) Both(ctx context.Context) (Noise, error) {
	if !n.OneDirection {
		return n, nil
	}
	return n.found.bothDirections(ctx, n, tolerance)
}
