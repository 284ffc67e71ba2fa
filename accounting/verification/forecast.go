package verification

import (
	"context"
	"math"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/search"
)

// Forecast is about how long a verification takes, all of it: the search for a noise multiplier
// that needs no samples, estimates, tables and trials. Where the noise multiplier is about known,
// the forecast is right to a factor of two.
type Forecast struct {
	Seconds float64 // of processors, above 0
	Further float64 // of these for further ε, at least 0; they come on top of a budget

	// Enough is a budget in seconds of processors that is enough to accept up to .85 δ. A smaller
	// one costs noise. 0 where no samples are drawn.
	Enough float64

	Tables float64 // seconds of processors for the tables of one noise multiplier; 0 where no samples are drawn
	Sample float64 // seconds of processors a sample, at M/δ of Effort; 0 likewise
	Effort float64 // M/δ at the noise multiplier, at least 0; of H(Q,P), whose divergence is mostly far below δ, the part [search.FarShare]

	points float64 // as Tables, for all further ε together
}

// Seconds of verifications without samples, by what was measured: of privacy loss distributions, of
// those of cyclic Poisson sampling, and of closed forms.
const (
	poissonSeconds = 2.0
	cyclicSeconds  = 0.4
	closedSeconds  = 0.1
)

// How many noise multipliers a verification makes tables of: in the search for one that needs no
// samples, for estimates, for candidates, and for the workers that draw their samples.
const (
	tablesOfProofs     = 8
	tablesOfEstimates  = 5
	tablesOfCandidates = 3 // the main one, the spare one and the safe one
	tablesOfWorkers    = tablesOfCandidates
)

// VerifySamples is the number of samples, in multiples of M/δ, for a claim that accepts up to 0.9
// δ, with estimates and all candidates.
const VerifySamples = 9500

// enoughSamples is the same for a claim that accepts up to 0.85 δ.
const enoughSamples = 4500

// alsoShare is about the samples for further ε over the other samples. The true value is at most 1.
const alsoShare = 0.5

// timeOf is how many seconds of processors a sample of a direction takes.
func (e *estimator) timeOf(ctx context.Context, d montecarlo.Direction, w sampler) (float64, error) {
	before := e.of[direction(d)]
	for drawn, next := uint64(0), uint64(fewTimed); ; next *= 2 {
		if _, err := e.draw(ctx, d, w, drawn, next-drawn); err != nil {
			return 0, err
		}
		drawn = next
		took := (e.of[direction(d)].worked - before.worked).Seconds()
		if took <= 0 {
			took = (e.of[direction(d)].spent - before.spent).Seconds()
		}
		if took >= leastTimed {
			return took / float64(drawn), nil
		}
	}
}

// ForecastProven is the forecast of a run that is proven by a method without samples; ok says that
// the method is one.
func ForecastProven(run accounting.Run) (f Forecast, ok bool) {
	method, err := run.Method()
	switch {
	case err != nil:
		return f, false
	case method == accounting.ClosedForm:
		return Forecast{Seconds: closedSeconds}, true
	case method == accounting.PLD && run.Sampler.CyclicPoisson != nil:
		return Forecast{Seconds: cyclicSeconds}, true
	case method == accounting.PLD:
		return Forecast{Seconds: poissonSeconds}, true
	}
	return f, false
}

// Forecast makes the tables of a noise multiplier and draws some samples, to know their time, and
// says how long the whole takes where the one that comes out is near it; 0 looks for it first. It
// is for callers that ask before a verification, and certifies nothing.
func (p Problem) Forecast(ctx context.Context, noiseMultiplier float64) (Forecast, error) {
	if f, ok := ForecastProven(p.Run); ok {
		return f, nil
	}
	if noiseMultiplier == 0 {
		n, err := search.Find(ctx, p.Run.Untruncated(), p.Epsilon, p.Delta, nil, math.Inf(1))
		if err != nil {
			return Forecast{}, err
		}
		noiseMultiplier = n.Multiplier
	}
	f := Forecast{}
	p.Run = p.Run.Untruncated()
	p.Watch = nil
	e := p.newEstimator()
	for i, d := range montecarlo.Directions {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		begin := e.used()
		s, err := p.stick(ctx, noiseMultiplier, d)
		if err != nil {
			return f, err
		}
		f.Tables += e.used() - begin
		if s.divergence() <= search.Negligible*p.Delta {
			continue
		}
		part := 1.0
		if i > 0 {
			part = search.FarShare
		}
		worker, err := e.worker(s) // with tables of its own
		if err != nil {
			return f, err
		}
		took, err := e.timeOf(ctx, d, worker)
		if err != nil {
			return f, err
		}
		effort := part * s.bound() / p.Delta
		f.Sample = (f.Sample*f.Effort + effort*took) / (f.Effort + effort)
		f.Effort += effort
	}
	if count := len(p.AlsoEpsilon); count > 0 { // their tables take about as long for each
		of, begin := p, e.used()
		of.Epsilon = p.AlsoEpsilon[count/2]
		for _, d := range montecarlo.Directions {
			if _, err := of.stick(ctx, noiseMultiplier, d); err != nil {
				return f, err
			}
		}
		f.points = float64(count) * (e.used() - begin)
	}
	return p.again(f), nil
}

// Within is the forecast f of p with another budget in time.
func (p Problem) Within(f Forecast, budget time.Duration) Forecast {
	p.CPUTime = budget
	return p.again(f)
}

// again fills in what follows from the time of the parts.
func (p Problem) again(f Forecast) Forecast {
	f.Seconds, f.Further = p.seconds(f, f.points)
	f.Enough = p.tables(f, longCPUTime.Seconds()) + enoughSamples*f.Effort*f.Sample
	return f
}

// tables is how many seconds of processors all tables of a claim take.
func (p Problem) tables(f Forecast, budget float64) float64 {
	if p.NoiseMultiplier != 0 {
		return 2 * f.Tables
	}
	proofs := min(tablesOfProofs*f.Tables, max(3*f.Tables, proofShare*budget+f.Tables))
	return proofs + (tablesOfEstimates+tablesOfCandidates+tablesOfWorkers)*f.Tables
}

// seconds returns the time of a verification by the time of its parts, and the time in it for
// further ε, both in seconds of processors. The tables of all further ε at one noise multiplier
// take tablesOfPoints.
func (p Problem) seconds(f Forecast, tablesOfPoints float64) (all, further float64) {
	budget := DefaultCPUTime.Seconds()
	if p.CPUTime > 0 {
		budget = p.CPUTime.Seconds()
	}
	tables := p.tables(f, budget)
	samples := VerifySamples * f.Effort * f.Sample
	switch {
	case p.Samples > 0:
		samples = float64(p.Samples) * f.Sample
	case p.CPUTime > 0: // is used up
		samples = max(0, budget-tables)
	default:
		if tables > budget/2 { // it becomes longer, see lengthen
			budget = longCPUTime.Seconds()
		}
		samples = min(samples, max(0, budget-tables))
	}
	if len(p.AlsoEpsilon) > 0 {
		further = alsoShare*samples + (1+tablesOfCandidates+1+tablesOfWorkers)*tablesOfPoints
	}
	return tables + samples + further, further
}
