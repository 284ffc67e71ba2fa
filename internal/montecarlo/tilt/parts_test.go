package tilt

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// partsCase is a run that is divided in a number of parts.
type partsCase struct {
	steps, epoch, count int
	column              []float64
	sigma, epsilon      float64
}

func (c partsCase) config() Config {
	return Config{Epsilon: c.epsilon, Direction: montecarlo.P, Spec: specOf(sampling.EpochMinSep{Steps: c.steps, MinSep: min(len(c.column), c.epoch), EpochSteps: c.epoch}, toeplitz(c.steps, c.column...), c.sigma)}
}

// proposal is the proposal of a number of parts, whatever partsProposal would choose.
func (c partsCase) proposal(t *testing.T) (Proposal, *parts) {
	t.Helper()
	p, err := newParts(c.config(), c.count)
	if err != nil {
		t.Fatalf("%v: %v", c.config(), err)
	}
	moments, walkError := p.moments(t.Context())
	must.Do(t, p.prepare(moments, 0))
	m := p.best(moments)
	out := Proposal{Config: c.config(), Method: Tilted, Moment: m, Parts: c.count, Cut: p.cut, Slack: lossError(c.epsilon) + 2*walkError}
	out.Bound = p.bound(m) * (1 + 2*out.Slack)
	out.Divergence = min(1, out.Bound, p.proof)
	return out, p
}

// plainForward is the mean and the standard error of max(1 - γ/f, 0) under P, for columns at one of
// steps uniform steps of an epoch.
func plainForward(c *mechanism.Strategy, epoch int, sigma, epsilon float64, samples int, rng *rand.Rand) (mean, stderr float64) {
	columns := make([][]float64, c.Steps)
	for i := range columns {
		columns[i] = c.Column(nil, i)
	}
	y := make([]float64, c.Steps)
	sum, squares := 0.0, 0.0
	for range samples {
		for i := range y {
			y[i] = sigma * rng.NormFloat64()
		}
		if i := rng.IntN(epoch); i < c.Steps {
			for r, x := range columns[i] {
				y[i+r] += x
			}
		}
		f := 1 - float64(c.Steps)/float64(epoch)
		for i, column := range columns {
			inner, norm := 0.0, 0.0
			for r, x := range column {
				inner += x * y[i+r]
				norm += x * x
			}
			f += math.Exp((inner-norm/2)/(sigma*sigma)) / float64(epoch)
		}
		v := max(0, 1-math.Exp(epsilon)/f)
		sum += v
		squares += v * v
	}
	mean = sum / float64(samples)
	return mean, math.Sqrt((squares/float64(samples) - mean*mean) / float64(samples))
}

// meanOf returns the mean and the standard error of the values of a proposal, and the largest.
func meanOf(t *testing.T, p Proposal, samples int) (mean, stderr, most float64) {
	t.Helper()
	v := must.Get(NewVerifier(p, stream.PublicKey("test", nil)))(t)
	buffer := make([]float64, samples)
	v.Values(buffer, 0)
	squares := 0.0
	for _, x := range buffer {
		mean += x / float64(samples)
		squares += x * x / float64(samples)
		most = max(most, x)
	}
	return mean, math.Sqrt((squares - mean*mean) / float64(samples)), most
}

// TestParts: with independent noise the mean of the values is the divergence, which a privacy loss
// distribution knows, but for what the moments do not know of the other parts; no value is above M,
// and the proof is above the divergence.
func TestParts(t *testing.T) {
	for _, c := range []partsCase{
		{steps: 100, epoch: 100, count: 5, column: []float64{1}, sigma: .5, epsilon: 1},
		{steps: 400, epoch: 600, count: 10, column: []float64{1}, sigma: .45, epsilon: 2},
		{steps: 6250, epoch: 6250, count: 25, column: []float64{1}, sigma: .58, epsilon: 1},
	} {
		p, _ := c.proposal(t)
		composition := must.Get(pld.Compose([]pld.Step{{Event: pld.Allocation{Steps: float64(c.epoch), Places: c.steps, NoiseMultiplier: c.sigma, Sensitivity: 1}, Count: 1}}, pld.Options{}))(t)
		want := must.Get(composition.PQ.Delta(c.epsilon))(t)
		mean, stderr, most := meanOf(t, p, 20000)
		t.Logf("%v: divergence %.4g, mean %.4g ± %.2g, M %.4g, largest value %.4g, proof %.4g", c, want, mean, stderr, p.Bound, most, p.Divergence)
		if mean < want*(1-1e-3)-4*stderr || p.Divergence < want*(1-1e-3) || most > p.Bound {
			t.Errorf("%v: divergence %v, mean %v ± %v, M %v, largest value %v, proof %v", c, want, mean, stderr, p.Bound, most, p.Divergence)
		}
		if want < 0.01 && mean > want*1.25+4*stderr { // where several parts are large, they count twice
			t.Errorf("%v: divergence %v, mean %v ± %v is far above", c, want, mean, stderr)
		}
	}
}

// TestPartsOfBands: the mean of the values and the proof are above the divergence by plain samples
// of the whole run, for columns that overlap and parts of all lengths.
func TestPartsOfBands(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, c := range []partsCase{
		{steps: 61, epoch: 61, count: 2, column: []float64{1, .6, .3}, sigma: .7, epsilon: .7},
		{steps: 60, epoch: 60, count: 4, column: []float64{1, .8}, sigma: .7, epsilon: .7},
		{steps: 90, epoch: 120, count: 3, column: []float64{1, .5, .4, .3}, sigma: .6, epsilon: 1},
		{steps: 160, epoch: 160, count: 2, column: []float64{1, .9, .8, .7, .6}, sigma: .9, epsilon: .6},
	} {
		p, divided := c.proposal(t)
		want, plain := plainForward(c.config().Spec.Strategy, c.epoch, c.sigma, c.epsilon, 30000, rng)
		mean, stderr, most := meanOf(t, p, 15000)
		t.Logf("%v: divergence %.4g ± %.2g, mean %.4g ± %.2g, M %.4g, proof %.4g, floor %.3g", c, want, plain, mean, stderr, p.Bound, p.Divergence, divided.floor)
		if mean < want-4*math.Hypot(stderr, plain) || divided.proof < want-4*plain || most > p.Bound {
			t.Errorf("%v: divergence %v ± %v, mean %v ± %v, proof %v, largest value %v of %v", c, want, plain, mean, stderr, divided.proof, most, p.Bound)
		}
		if want < 8*plain {
			t.Errorf("%v: %v ± %v tests nothing", c, want, plain)
		}
	}
}

// TestPartsOfALongEpoch says how many samples one epoch of a language model takes.
func TestPartsOfALongEpoch(t *testing.T) {
	if os.Getenv("MINSEP_LONG") == "" {
		t.Skip("takes a minute: MINSEP_LONG=1")
	}
	const delta = 1e-9
	strategy := must.Get(mechanism.Problem{Workload: mechanism.Prefix(100000)}.Make(t.Context(), mechanism.KindBandedToeplitz, 16))(t)
	c := Config{Epsilon: 1, Direction: montecarlo.P, Spec: specOf(sampling.EpochMinSep{Steps: 100000, MinSep: 16, EpochSteps: 100000}, strategy, .58)}
	f := newForward(c, likelihood.NewColumns(strategy), math.Inf(1)) // without parts
	f.orders(t.Context())
	f.blocks(t.Context())
	whole := must.Get(f.proposal())(t)
	p := must.Get(NewProposal(t.Context(), c, math.Inf(1)))(t)
	t.Logf("M/δ by powers of f %.4g, in %d parts %.4g", whole.Bound/delta, p.Parts, p.Bound/delta)
	if p.Parts == 0 || p.Bound > whole.Bound/1000 {
		t.Errorf("M/δ is %v in %d parts, %v by powers of f", p.Bound/delta, p.Parts, whole.Bound/delta)
	}
}
