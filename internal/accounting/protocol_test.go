package accounting

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

// toyRun is one release with certain participation: the Gaussian mechanism, of known δ, that the
// protocol sees as one to be sampled.
func toyRun() Run {
	return Run{
		Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 1, Steps: 1, MinSep: 1}},
		Strategy:            mechanism.Identity(1),
		MaxExamplesPerOwner: 1,
	}
}

// toyValue draws the verifier's value for the Gaussian mechanism; by symmetry both directions are
// alike.
func toyValue(rng *rand.Rand, sigma, epsilon float64) float64 {
	loss := (rng.NormFloat64() + 0.5/sigma) / sigma
	return montecarlo.Value(epsilon, loss)
}

// toyProtocol verifies the sigmas at (epsilon, delta), the last one by its proof.
func toyProtocol(t *testing.T, epsilon, delta, accept float64, sigmas ...float64) *Protocol {
	t.Helper()
	th, samples, err := samplesAt(Claim{Delta: delta}, accept, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := &Protocol{Format: 1, Run: toyRun(), Points: []Point{{epsilon, delta, th}}, KernelID: "toy", CodeVersion: "test"}
	for i, sigma := range sigmas {
		c := Candidate{NoiseMultiplier: sigma}
		for _, d := range montecarlo.Directions {
			trial := Trial{Direction: d, Method: MonteCarlo, Bound: 1, Samples: samples[0]}
			if i == len(sigmas)-1 {
				proof := must.Get(Gaussian{1, sigma}.Delta(epsilon))(t)
				trial = Trial{Direction: d, Method: PLD, Bound: proof}
			}
			c.Trials = append(c.Trials, trial)
		}
		p.Candidates = append(p.Candidates, c)
	}
	must.Do(t, p.Validate())
	return p
}

// run draws all samples of a protocol.
func run(p *Protocol, rng *rand.Rand) (tallies []Tally) {
	for c, candidate := range p.Candidates {
		for i, trial := range candidate.Trials {
			if trial.Samples == 0 {
				continue
			}
			tally := Tally{Candidate: c, Trial: i, Count: trial.Samples}
			for range trial.Samples {
				tally.Sum.Add(toyValue(rng, candidate.NoiseMultiplier, p.Points[trial.Point].Epsilon) / trial.Bound)
			}
			tallies = append(tallies, tally)
		}
	}
	return tallies
}

// TestToyProtocol runs the whole protocol where δ is known: the certificate is right, at the
// smallest candidate that it can be.
func TestToyProtocol(t *testing.T) {
	const epsilon, delta = 1.0, 0.01
	need := must.Get(GaussianNoiseMultiplier(epsilon, delta, 1))(t)
	p := toyProtocol(t, epsilon, delta, 0.9*delta, 0.97*need, 0.99*need, 1.01*need, 1.03*need, 1.1*need)
	c := must.Get(p.Certificate(run(p, rand.New(rand.NewPCG(1, 1)))))(t)
	truth, _ := Gaussian{1, c.NoiseMultiplier}.Delta(epsilon)
	if truth > delta {
		t.Errorf("released σ = %g has δ = %g above %g", c.NoiseMultiplier, truth, delta)
	}
	if c.NoiseMultiplier != 1.03*need {
		t.Errorf("released σ = %g, want the first whose δ is below .9: %g", c.NoiseMultiplier, 1.03*need)
	}
	if c.Method != MonteCarlo || c.Status != Verified || len(c.Points) != 1 || c.KernelID != "toy" {
		t.Errorf("certificate %+v", c)
	}
	data := must.Get(c.Encode())(t)
	back := must.Get(ParseCertificate(data))(t)
	if again, _ := back.Encode(); !bytes.Equal(again, data) {
		t.Error("a certificate does not survive being read")
	}
}

// TestWrongReleases: over many runs of the whole protocol with several candidates that are not
// private, one of these is released no oftener than q: one q, not the sum over candidates and
// directions.
func TestWrongReleases(t *testing.T) {
	const epsilon, verify, accept, runs, samples = 0.5, 0.1, 0.06, 3000, 100
	q := FailureProbability(samples, 1, accept, verify)
	sigmaAt := func(delta float64) float64 {
		s := must.Get(GaussianNoiseMultiplier(epsilon, delta, 1))(t)
		return s
	}
	p := &Protocol{Format: 1, Run: toyRun(), CodeVersion: "test",
		Points: []Point{{epsilon, verify + q, Thresholds{accept, verify, q}}}}
	for _, delta := range []float64{0.106, 0.104, 0.102, 0.1001, 0.03} { // four of them not private
		c := Candidate{NoiseMultiplier: sigmaAt(delta)}
		for _, d := range montecarlo.Directions {
			c.Trials = append(c.Trials, Trial{Direction: d, Method: MonteCarlo, Bound: 1, Samples: samples})
		}
		p.Candidates = append(p.Candidates, c)
	}
	must.Do(t, p.Validate())
	rng := rand.New(rand.NewPCG(5, 8))
	wrong, none := 0, 0
	for range runs {
		r, err := p.Release(run(p, rng))
		switch {
		case errors.Is(err, ErrNotVerified):
			none++
		case err != nil:
			t.Fatal(err)
		case r.Candidate < 4:
			wrong++
		}
	}
	if float64(wrong) > q*runs && stattest.Count(wrong, runs, q) != nil {
		t.Errorf("%d of %d releases were not private, bound %g", wrong, runs, q)
	}
	if none == runs {
		t.Error("nothing was ever released")
	}
}

func TestReleaseRule(t *testing.T) {
	p := toyProtocol(t, 1, 0.1, 0.05, 0.5, 0.6, 0.7, 3)
	n := p.Candidates[0].Trials[0].Samples
	tally := func(candidate, trial int, mean float64) Tally {
		ta := Tally{Candidate: candidate, Trial: trial, Count: n}
		for i := range n {
			if float64(i) < mean*float64(n) {
				ta.Sum.Add(1)
			}
		}
		return ta
	}
	good, bad := 0.01, 0.2
	for name, c := range map[string]struct {
		tallies []Tally
		want    int
	}{
		"nothing was run":              {nil, 3},
		"all accepted":                 {[]Tally{tally(0, 0, good), tally(0, 1, good), tally(1, 0, good), tally(1, 1, good), tally(2, 0, good), tally(2, 1, good)}, 0},
		"a gap":                        {[]Tally{tally(0, 0, good), tally(0, 1, good), tally(1, 0, good), tally(1, 1, bad), tally(2, 0, good), tally(2, 1, good)}, 2},
		"one direction only":           {[]Tally{tally(2, 0, good)}, 3},
		"smaller ones without larger":  {[]Tally{tally(1, 0, good), tally(1, 1, good)}, 3},
		"rejected in direction Q only": {[]Tally{tally(2, 0, good), tally(2, 1, bad)}, 3},
	} {
		r, err := p.Release(c.tallies)
		if err != nil || r.Candidate != c.want {
			t.Errorf("%s: released %+v, want candidate %d, %v", name, r, c.want, err)
		}
	}
	short := tally(2, 0, good)
	short.Count--
	if _, err := p.Release([]Tally{short}); err == nil {
		t.Error("an incomplete trial was judged")
	}
	if _, err := p.Release([]Tally{tally(2, 0, good), tally(2, 0, good)}); err == nil {
		t.Error("a trial was counted twice")
	}
	p.Candidates = p.Candidates[:3]
	_, err := p.Release([]Tally{tally(2, 0, good), tally(2, 1, bad)})
	var nv *NotVerifiedError
	if !errors.As(err, &nv) || !errors.Is(err, ErrNotVerified) || nv.NoiseMultiplier != 0.7 || !strings.Contains(err.Error(), "direction Q") {
		t.Errorf("got %v, want a NotVerifiedError for direction Q", err)
	}
	p.Earlier = []Earlier{{FailureProbability: 1e-4}}
	if _, err = p.Release([]Tally{tally(2, 0, good), tally(2, 1, bad)}); !errors.As(err, &nv) ||
		nv.Next != (Claim{Delta: p.Points[0].Delta, Earlier: 1e-4 + p.Points[0].FailureProbability}) {
		t.Errorf("the next claim is %+v", nv.Next)
	}
}

// TestFurtherPoints: a second ε is certified by the same rule, at the same candidate, and counts
// both failure probabilities.
func TestFurtherPoints(t *testing.T) {
	claim := Claim{Delta: 0.1, Earlier: 1e-3, MostFailure: 1e-3} // that of the other point
	th, samples, err := samplesAt(claim, 0.05, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := &Protocol{Format: 1, Run: toyRun(), CodeVersion: "test", Points: []Point{{1, 0.1, th}, {2, 0.1, th}}}
	for _, sigma := range []float64{0.8, 0.9} {
		c := Candidate{NoiseMultiplier: sigma}
		for point := range p.Points {
			for _, d := range montecarlo.Directions {
				c.Trials = append(c.Trials, Trial{Point: point, Direction: d, Method: MonteCarlo, Bound: 1, Samples: samples[0]})
			}
		}
		p.Candidates = append(p.Candidates, c)
	}
	var tallies []Tally
	for candidate := range 2 {
		for trial := range 4 {
			ta := Tally{Candidate: candidate, Trial: trial, Count: samples[0]}
			if candidate == 1 && trial == 3 { // the second point fails at the larger candidate
				for range samples[0] {
					ta.Sum.Add(0.5)
				}
			}
			tallies = append(tallies, ta)
		}
	}
	c := must.Get(p.Certificate(tallies))(t)
	if c.NoiseMultiplier != 0.8 || len(c.Points) != 1 {
		t.Errorf("released %g with %d points, want 0.8 with the first point only", c.NoiseMultiplier, len(c.Points))
	}
	if got := c.Points[0].FailureProbability; got != 2*th.FailureProbability {
		t.Errorf("failure probability %g, want that of both points, %g", got, 2*th.FailureProbability)
	}
	p.Points[1].Delta = 0.0999 * 0.5
	if err := p.Validate(); err == nil {
		t.Error("a point whose δ does not cover all failure probabilities was taken")
	}
}

func TestProtocolIsStrict(t *testing.T) {
	p := toyProtocol(t, 1, 0.1, 0.05, 0.5, 3)
	data := must.Get(p.Encode())(t)
	if back, err := ParseProtocol(data); err != nil {
		t.Error(err)
	} else if a, _ := back.SHA256(); len(a) != 64 {
		t.Errorf("hash %q", a)
	}
	for name, bad := range map[string][]byte{
		"unknown field":    bytes.Replace(data, []byte(`"format"`), []byte(`"colour": 1, "format"`), 1),
		"other spelling":   bytes.Replace(data, []byte(`"epsilon": 1,`), []byte(`"epsilon": 1.0,`), 1),
		"bytes after":      append(bytes.Clone(data), '1'),
		"truncated":        data[:len(data)/2],
		"other thresholds": bytes.Replace(data, []byte(`"accept": 0.05`), []byte(`"accept": 0.09`), 1),
	} {
		if bytes.Equal(bad, data) {
			t.Fatalf("%s: the test changed nothing", name)
		}
		if _, err := ParseProtocol(bad); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
	for name, change := range map[string]func(p *Protocol){
		"too few samples":   func(p *Protocol) { p.Candidates[0].Trials[0].Samples /= 2 },
		"one direction":     func(p *Protocol) { p.Candidates[0].Trials = p.Candidates[0].Trials[:1] },
		"P twice":           func(p *Protocol) { p.Candidates[0].Trials[1].Direction = montecarlo.P },
		"order":             func(p *Protocol) { p.Candidates[0].NoiseMultiplier = 4 },
		"bound above δ_v":   func(p *Protocol) { p.Candidates[1].Trials[0].Bound = 0.2 },
		"smaller δ":         func(p *Protocol) { p.Points[0].Delta = 0.05 },
		"earlier protocols": func(p *Protocol) { p.Earlier = []Earlier{{strings.Repeat("00", 32), 0.05}} },
		"NaN":               func(p *Protocol) { p.Points[0].Verify = math.NaN() },
		"format":            func(p *Protocol) { p.Format = 2 },
	} {
		p := toyProtocol(t, 1, 0.1, 0.05, 0.5, 3)
		change(p)
		if _, err := p.Encode(); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}

func FuzzParseProtocol(f *testing.F) {
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseProtocol(data)
		if err != nil {
			return
		}
		if again, err := p.Encode(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("a protocol that was taken encodes to something else, %v", err)
		}
	})
}

func FuzzParseCertificate(f *testing.F) {
	f.Add([]byte(`{"format":1,"status":"verified"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ParseCertificate(data); err == nil {
			if _, err := c.Encode(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAcceptanceBoundary: a mean just below the one that a trial accepts is accepted, and one just
// above is not, whether the trial has it or its point.
func TestAcceptanceBoundary(t *testing.T) {
	const n, accept, bound = 1 << 10, 1. / 16, 1. / 4
	tally := func(rest float64) *Tally {
		ta := &Tally{Count: n}
		for range n / 4 { // a mean of 1/4 of the bound but for the last value
			ta.Sum.Add(1)
		}
		ta.Sum.Add(rest)
		return ta
	}
	less := &Tally{Count: n}
	for range n/4 - 1 {
		less.Sum.Add(1)
	}
	less.Sum.Add(1 - 1e-9)
	for name, c := range map[string]struct {
		point, trial float64
		tally        *Tally
		want         bool
	}{
		"just below":             {accept, 0, less, true},
		"just above":             {accept, 0, tally(1e-9), false},
		"just below, of a trial": {accept / 2, accept, less, true},
		"just above, of a trial": {2 * accept, accept, tally(1e-9), false},
	} {
		p := &Protocol{Points: []Point{{1, .5, Thresholds{Accept: c.point, Verify: .4}}}}
		v, run, err := p.verdict(Trial{Direction: montecarlo.P, Method: MonteCarlo, Bound: bound, Samples: n, Accept: c.trial}, c.tally)
		if err != nil || !run || v.Accepted != c.want {
			t.Errorf("%s: mean %v, accepted %v (%v), want %v", name, v.Mean, v.Accepted, err, c.want)
		}
	}
}
