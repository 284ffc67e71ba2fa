// Package privacy finds how much noise a training needs, and certifies it. [Claim.Estimate]
// estimates the noise multiplier of a scheme of package sampling, or of your own law, with a
// strategy of package mechanism. [Certify] verifies one and returns a [Certificate], which anybody
// can verify again.
//
//	claim := privacy.Claim{Sampler: spec, Strategy: strategy, Epsilon: 2, Delta: 1e-5}
//	certificate, err := privacy.Certify(ctx, claim, nil)
//
// # Guarantee
//
// A verified certificate says that the training is (ε, δ)-differentially private under zero-out
// adjacency: the clipped gradients of one owner, or of one example, are replaced by zero. Whoever
// sees all noisy sums, knows all other examples and chooses gradients adaptively is covered, in
// both directions. It holds for a mechanism; that a training is this mechanism is for the trainer.
//
// # Samples
//
// Runs without a proof in closed form or by privacy loss distributions are verified by samples,
// under a protocol that is fixed before the first of them (arXiv 2602.09338, Appendix A). A verification
// errs with a probability that is part of δ. Whoever tries again must count what was tried before,
// see [Claim.Earlier]. Samples are public and need no key.
//
// Stability: stable.
package privacy

import (
	"cmp"
	"context"
	"math"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/manifest"
	"minsep/mechanism"
	"minsep/sampling"
)

// Claim is (Epsilon, Delta)-differential privacy of a training, to be estimated or certified.
type Claim struct {
	Sampler  sampling.Spec       // how examples take part in steps
	Strategy *mechanism.Strategy // how noise is correlated; with as many steps as the sampler

	MaxExamplesPerOwner int   // 0 means 1: an owner is one example, or owners are sampled
	Examples            int64 // of the data set, or owners if they are sampled; needed with Sampler.Truncation only
	SingleExamples      bool  // protect single examples only, however many an owner has

	Epsilon         float64 // finite, at least 0
	Delta           float64 // at least 1e-299, below 1
	NoiseMultiplier float64 // certify this one only: standard deviation over clip norm; 0 for the smallest that can be verified

	Samples uint64        // budget of a certificate; or
	CPUTime time.Duration // of one processor; with neither, a minute

	// Earlier are verifications with samples that came to nothing, see [NotVerifiedError]. They are
	// part of δ.
	Earlier []Earlier

	// Watch, if not nil, is told in words what [Certify] does, about once a second where this process
	// draws the samples. It is called from one goroutine.
	Watch func(text string)
}

// Earlier is an earlier verification.
type Earlier struct {
	ProtocolSHA256     string  // 64 hexadecimal digits
	FailureProbability float64 // in [0, 1)
}

// Noise is an estimate of the smallest noise multiplier of a claim.
type Noise struct {
	Multiplier float64 // σ: standard deviation of the noise over the clip norm, above 0
	StdErr     float64 // standard error of Multiplier; 0 if Proven
	Proven     bool    // Multiplier is enough, without samples
}

// Validate reports every fault.
func (c Claim) Validate() error { return c.problem().Validate() }

// Estimate returns an estimate of the claim's smallest noise multiplier, in a second or so, or up to
// a quarter of a minute for a strategy with more bands than the scheme's min-sep: its tables grow with
// both, and those that are too large are an error. Unless it is Proven it certifies nothing. The cost
// of a maximum batch size is left out. A combination of scheme and strategy without an analysis is an
// error, as it is for [Certify].
func (c Claim) Estimate(ctx context.Context) (Noise, error) {
	if err := c.Validate(); err != nil {
		return Noise{}, err
	}
	of := calibration.Claim{Run: c.problem().Run.Untruncated(), Epsilon: c.Epsilon, Delta: c.Delta}
	n, err := of.Noise(ctx, 0, math.Inf(1))
	if err == nil {
		n, err = n.Both(ctx)
	}
	return Noise{n.Multiplier, n.StdErr, n.Proven && c.Sampler.Truncation == nil}, err
}

func (c Claim) watch(text string) {
	if c.Watch != nil {
		c.Watch(text)
	}
}

func (c Claim) problem() calibration.Problem {
	p := calibration.Problem{
		Run: accounting.Run{
			Sampler:             c.Sampler,
			Strategy:            c.Strategy,
			MaxExamplesPerOwner: cmp.Or(c.MaxExamplesPerOwner, 1),
			Examples:            c.Examples,
		},
		Epsilon:         c.Epsilon,
		Delta:           c.Delta,
		NoiseMultiplier: c.NoiseMultiplier,
		Samples:         c.Samples,
		CPUTime:         c.CPUTime,
		CodeVersion:     manifest.Version,
		Watch:           func(p calibration.Phase) { c.watch(p.Text) },
	}
	if c.SingleExamples {
		p.Unit = accounting.UnitExample
	}
	for _, e := range c.Earlier {
		p.Earlier = append(p.Earlier, accounting.Earlier(e))
	}
	return p
}
