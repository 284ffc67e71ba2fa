package verification

import (
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/accounting/search"
)

// Row is one line of the table of noise multipliers against samples: the cost of a candidate
// with an estimated δ that is just accepted.
type Row struct {
	Accept          float64 `json:"accept"`           // δ', above 0 and below δ
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ, above 0
	Samples         float64 `json:"samples"`          // of both directions together
	Seconds         float64 `json:"seconds"`          // of time on this machine, about; 0 if not known
}

// Plan holds everything known before the first sample of a verification.
type Plan struct {
	Protocol *accounting.Protocol // nil where no candidate was chosen
	Method   accounting.Method    // of the run
	// Estimate is the estimated smallest noise multiplier, without any slack for the
	// verification; 0 where none was made. For proven methods it is the protocol's.
	Estimate  float64
	Estimates []NoiseEstimate // in the order in which they were made
	Table     []Row           // by rising Accept, without rows that take too many samples
	// Each is the time of one sample on this machine, and CPU the seconds of processors that it
	// takes; 0 if not known.
	Each time.Duration
	CPU  float64

	spent spent // of the budget
	// again chooses the candidates of a calibrated plan for the budget that is left after a second
	// plan, which drew this number of samples.
	again func(samples uint64) error
}

// Plan chooses candidates and thresholds. Its errors wrap accounting.RefusedError where no analysis
// is known, accounting.ErrTooFewSamples where the budget is too small, and
// accounting.ErrNotVerified where the given noise multiplier is not enough.
func (p Problem) Plan(ctx context.Context) (*Plan, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Run.Sampler.Truncation != nil {
		return p.truncated(ctx)
	}
	return p.plan(ctx)
}

func (p Problem) plan(ctx context.Context) (*Plan, error) {
	method, proven, err := search.Provable(p.Run)
	if err != nil {
		return nil, err
	}
	out := &Plan{Method: method}
	if proven {
		if err := p.proven(ctx, out); err != nil {
			return out, err
		}
		return out, p.also(ctx, out)
	}
	e := p.newEstimator()
	if p.NoiseMultiplier != 0 {
		err = p.fixed(ctx, e, out)
	} else {
		err = p.calibrated(ctx, e, out)
	}
	out.Each, out.CPU, out.spent = e.each(), e.eachCPU(), spent{p.before.samples + e.drawn - e.measured, e.used()}
	if p.pair().Majorized() && errors.Is(err, accounting.ErrTooFewSamples) { // without samples the claim costs more noise, but it can be made
		without := &Plan{Method: accounting.PLD, Estimates: out.Estimates, Table: out.Table, Each: out.Each, CPU: out.CPU}
		if p.proven(ctx, without) == nil {
			return without, p.also(ctx, without)
		}
	}
	if err == nil {
		err = p.also(ctx, out)
	}
	return out, err
}

func (p Problem) newEstimator() *estimator {
	scale, err := search.NewScale(p.Epsilon, p.Delta)
	if err != nil { // Validate refuses such claims
		panic(err)
	}
	e := &estimator{scale: scale, last: map[montecarlo.Direction]hockeyStick{}, stick: p.stick, cut: p.cost, epsilon: p.Epsilon, delta: p.Delta, workers: p.Workers, watch: p.Watch, share: p.newShare(), limit: math.Inf(1)}
	if e.workers <= 0 {
		e.workers = runtime.GOMAXPROCS(0)
	}
	if p.Accept > 0 {
		e.limit = estimateSamples(p.steps())
	}
	return e
}

// proofMethod is the method by which the pair of a sampled run has a bound without proposals.
func (p Problem) proofMethod() accounting.Method {
	if p.pair().Majorized() {
		return accounting.PLD
	}
	return accounting.ClosedForm
}

// PhaseTables is the text of a phase in which tables are made.
const PhaseTables = "tables"

// divergences computes the divergences of noise multipliers, in both directions. Proposals that
// were made already are in known.
func (p Problem) divergences(ctx context.Context, e *estimator, sigmas []float64, known ...tilt.Provable) (divergences [][2]hockeyStick, err error) {
	for n, sigma := range sigmas {
		if n > 0 {
			e.report(Phase{Text: PhaseTables, Done: uint64(n), Of: uint64(len(sigmas))})
		}
		var pair [2]hockeyStick
		for i, d := range montecarlo.Directions {
			if pair[i], err = p.knownStick(ctx, sigma, d, known); err != nil {
				return nil, err
			}
			if pair[i].cut, err = p.cost(sigma, d); err != nil {
				return nil, err
			}
		}
		pq, qp, err := p.pair().Prove(sigma, p.Epsilon)
		switch {
		case err == nil:
			pair[0].proof, pair[1].proof = proof{p.proofMethod(), pq.Upper}, proof{p.proofMethod(), qp.Upper}
		case !errors.Is(err, accounting.ErrNoProof):
			return nil, err
		}
		divergences = append(divergences, pair)
	}
	return divergences, nil
}
