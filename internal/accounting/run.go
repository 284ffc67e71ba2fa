package accounting

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/param"
	"minsep/mechanism"
	"minsep/sampling"
)

// Run is the training that a claim is about: everything but the noise multiplier that determines
// the privacy loss. All of it is public.
type Run struct {
	Sampler             sampling.Spec       `json:"sampler"`                // how examples or owners take part
	Strategy            *mechanism.Strategy `json:"strategy"`               // with as many steps as the sampler
	MaxExamplesPerOwner int                 `json:"max_examples_per_owner"` // k_u, at least 1; 1 for example-level privacy, and where owners follow the sampler
	// Examples is the size of the data set: the number of copies of examples, or of owners where
	// they follow the sampler. It is needed with truncation only, and otherwise may be 0.
	Examples int64 `json:"examples,omitempty"`
}

// Method is how a claim is verified.
type Method string

// Methods, in the words of the certificate.
const (
	ClosedForm Method = "closed-form"           // the Gaussian mechanism with the strategy's sensitivity (F2, F6; F5.16 where participations are random)
	PLD        Method = "pld"                   // composition of independent events (F3.5, F6)
	RenyiBound Method = "renyi bound M<=delta"  // a bound of the divergence that needs no sample (F5.2, F5.4)
	MonteCarlo Method = "monte carlo"           // samples, by the protocol of F5
	Unproven   Method = "published, not proven" // Algorithm 3 of arXiv 2602.09338: never certified
)

// RefusedError says that no analysis is known for a combination of scheme, bands, owners and
// truncation.
type RefusedError struct {
	Scheme, Reason string // name of the scheme, and why it is refused, as part of a sentence

	// Help are the changes by which the combination has an analysis, by the flags of minsep account;
	// "" if there is none that is known, or if the reason says it.
	Help string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: refused: %s", e.Scheme, e.Reason)
}

// Validate reports every fault of the parameters. Whether the combination can be accounted for is
// for Method to say.
func (r Run) Validate() error {
	c := param.Checker{}
	c.Add(r.Sampler.Validate())
	c.AtLeast("max examples per owner", r.MaxExamplesPerOwner, 1)
	c.Require(
		r.Sampler.Owners == nil || r.MaxExamplesPerOwner == 1,
		"max examples per owner",
		r.MaxExamplesPerOwner,
		"must be 1 where owners are sampled: an owner takes part as one example does, however many it has",
	)
	c.Require(r.Examples >= 0, "examples", r.Examples, "must be at least 0")
	if r.Strategy == nil {
		c.Require(false, "strategy", "none", "is needed")
	} else {
		c.Add(r.Strategy.Validate())
	}
	if err := c.Err(); err != nil {
		return err
	}
	c.Require(
		r.Strategy.Steps == r.steps(),
		"steps of the strategy",
		r.Strategy.Steps,
		fmt.Sprintf("must be as many as the sampler has, %d (--steps)", r.steps()),
	)
	if r.Sampler.Truncation != nil {
		c.Require(r.Examples >= 1, "examples", r.Examples, "must be given with a maximum batch size")
	}
	return c.Err()
}

func (r Run) steps() int { return r.Sampler.Scheme().NumSteps() }

// Method returns how a claim about the run is verified (the tables of docs/schemes.md). A
// combination without an analysis is a RefusedError.
func (r Run) Method() (Method, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	method, err := r.schemeMethod()
	if err == nil && method == MonteCarlo {
		_, err = sampling.TableOf(r.Sampler.Scheme())
	}
	return method, err
}

// Loss returns the run's loss as package montecarlo computes and samples it, without a maximum batch
// size, and with one step for each pattern if there are few. The run's method must be MonteCarlo,
// Unproven or PLD.
func (r Run) Loss(noiseMultiplier float64) montecarlo.Spec {
	return r.stepLoss(noiseMultiplier).ByPatterns()
}

// stepLoss is Loss with the run's own steps.
func (r Run) stepLoss(noiseMultiplier float64) montecarlo.Spec {
	spec := montecarlo.Spec{
		MultiOwner:      r.Sampler.MultiOwner,
		NoiseMultiplier: noiseMultiplier,
		Strategy:        r.Strategy,
	}
	if table, err := sampling.TableOf(r.Sampler.Scheme()); err == nil {
		spec.Law = table
	}
	if r.MaxExamplesPerOwner > 1 {
		spec.MaxExamplesPerOwner = r.MaxExamplesPerOwner
	}
	return spec
}

// ErrNoProof says that a run has no proof by closed form or privacy loss distribution.
var ErrNoProof = errors.New("no closed form and no composition of independent events")

// Prove returns upper bounds of δ(epsilon) in both directions for a run of the method ClosedForm or
// PLD, for one that is Majorized, or of the method MonteCarlo (F5.16). For other runs the error is
// ErrNoProof. With a maximum batch size it is about the run's own pair, as Loss
// is; for that of the method MonteCarlo there is none.
func (r Run) Prove(noiseMultiplier, epsilon float64) (pq, qp float64, err error) {
	method, err := r.ownMethod()
	if err != nil {
		return pq, qp, err
	}
	switch {
	case method == ClosedForm:
		delta, err := r.gaussianDelta(noiseMultiplier, epsilon)
		return delta, delta, err
	case method == PLD || r.Majorized():
		return r.composedDelta(noiseMultiplier, epsilon)
	}
	u, ok, err := r.unamplified()
	if err == nil && !ok {
		err = ErrNoProof
	}
	if err != nil {
		return pq, qp, err
	}
	pq, qp = u.delta(noiseMultiplier, epsilon)
	return pq, qp, nil
}

// Events returns independent events that together dominate a run, to be composed with the events of
// other runs. They are the events of the method PLD, or one Gaussian mechanism for the method
// ClosedForm. For other runs, and with a maximum batch size, whose proof adds a cost, the error is
// ErrNoProof.
func (r Run) Events(noiseMultiplier float64) ([]pld.Step, error) {
	method, err := r.Method()
	switch {
	case err != nil:
		return nil, err
	case r.Sampler.Truncation != nil:
	case method == PLD:
		return r.events(noiseMultiplier)[0], nil
	case method == ClosedForm:
		sens, err := r.sensitivity()
		gaussian := pld.Release{
			Prob:            1,
			NoiseMultiplier: noiseMultiplier,
			Sensitivity:     sens.Value * (1 + 1e-9),
			Examples:        1,
		} // the sensitivity is rounded
		return []pld.Step{{Event: gaussian, Count: 1}}, err
	}
	return nil, ErrNoProof
}

// Calibrate finds a noise multiplier at which the run is proven to be (epsilon, delta)-DP, and within
// 1e-6 of the smallest one, for a run that has a proof, see Prove; for others the error is ErrNoProof.
// When ctx ends, Calibrate returns its error before it tries another noise multiplier.
func (r Run) Calibrate(ctx context.Context, epsilon, delta float64) (float64, error) {
	method, err := r.ownMethod()
	if err != nil {
		return 0, err
	}
	switch {
	case method == ClosedForm:
		sens, err := r.sensitivity()
		if err != nil {
			return 0, err
		}
		return GaussianNoiseMultiplier(epsilon, delta*(1-2e-9), sens.Value)
	case method == PLD || r.Majorized():
		search := pld.Search{Least: r.leastNoiseMultiplier(), Start: 1, Step: 0.7, Width: 1e-6}
		return search.Calibrate(delta, func(sigma float64) (float64, error) {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			pq, qp, err := r.composedDelta(sigma, epsilon)
			return max(pq, qp), err
		})
	}
	u, ok, err := r.unamplified()
	if err == nil && !ok {
		err = ErrNoProof
	}
	if err != nil {
		return 0, err
	}
	return u.calibrate(ctx, epsilon, delta)
}

// ownMethod is the Method for the run's own pair.
func (r Run) ownMethod() (Method, error) {
	method, err := r.Method()
	if err == nil {
		err = r.truncatedPair()
	}
	return method, err
}

// gaussianDelta bounds δ(epsilon), which is the same in both directions.
func (r Run) gaussianDelta(noiseMultiplier, epsilon float64) (float64, error) {
	sens, err := r.sensitivity()
	if err != nil {
		return 0, err
	}
	delta, err := Gaussian{sens.Value, noiseMultiplier}.Delta(epsilon)
	return min(1, delta*(1+1e-9)), err // the closed form and the sensitivity are rounded
}

// composedDelta bounds δ(epsilon) of a run of the method PLD, or of one that is Majorized.
func (r Run) composedDelta(noiseMultiplier, epsilon float64) (pq, qp float64, err error) {
	if least := r.leastNoiseMultiplier(); noiseMultiplier < least {
		return 0, 0, &ParamError{
			Param: "noise multiplier",
			Value: noiseMultiplier,
			Rule: fmt.Sprintf(
				"must be at least %.4g with this strategy: less gives no privacy to speak of, and its losses are not computed",
				least,
			),
		}
	}
	for _, steps := range r.events(noiseMultiplier) {
		c, err := pld.Compose(steps, pld.Options{})
		if err != nil {
			return 0, 0, err
		}
		here, err := c.PQ.Delta(epsilon)
		if err != nil {
			return 0, 0, err
		}
		there, err := c.QP.Delta(epsilon)
		if err != nil {
			return 0, 0, err
		}
		pq, qp = max(pq, here), max(qp, there)
	}
	return pq, qp, nil
}

// leastNoiseMultiplier is the smallest noise multiplier for which losses can be composed.
func (r Run) leastNoiseMultiplier() float64 {
	return pld.LeastNoiseMultiplier(slices.Max(r.ColumnNorms()), r.MaxExamplesPerOwner)
}

// ColumnNorms returns the Euclidean norms of the columns of C, one a step. For a normalized
// strategy they are 1, although its stored columns are not normalized.
func (r Run) ColumnNorms() []float64 {
	norms := r.Strategy.ColumnNorms()
	if r.Strategy.Normalized {
		for i := range norms {
			norms[i] = 1
		}
	}
	return norms
}

// unamplified returns the bound of a run of the method MonteCarlo. ok is false where another proof
// without samples is no larger, and for the pair of truncated batches.
func (r Run) unamplified() (u unamplified, ok bool, err error) {
	method, err := r.ownMethod()
	if err != nil || method != MonteCarlo || r.Majorized() || r.Sampler.Truncation != nil {
		return u, false, err
	}
	sensitivity, err := r.sensitivity()
	if errors.Is(err, mechanism.ErrTooLarge) {
		return u, false, nil
	}
	if err != nil {
		return u, false, err
	}
	k := float64(r.MaxExamplesPerOwner)
	participation, err := r.participation()
	if err != nil {
		return u, false, err
	}
	u.sensitivity = k * sensitivity.Value * upward
	u.logNever = k * math.Log(participation.never) * (1 + absoluteEpsilonError)
	return u, true, nil
}
