package accounting

import (
	"errors"
	"os"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

const steps, minSep = 32, 4

// samplersOfAllKinds has one of each kind, by name.
func samplersOfAllKinds(t *testing.T) map[string]sampling.Spec {
	t.Helper()
	law := must.Get(twice(0.1).Tabulate(steps))(t)
	return map[string]sampling.Spec{
		"law":                              {Law: law},
		"poisson":                          {Poisson: &sampling.Poisson{Prob: 0.1, Steps: steps}},
		"cyclic-poisson":                   {CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: steps, MinSep: minSep}},
		"cyclic-poisson, secret partition": {CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: steps, MinSep: minSep, SecretPartition: true}},
		"balls-in-bins":                    {BallsInBins: &sampling.BallsInBins{Steps: steps, Period: minSep}},
		"b-min-sep":                        {BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: steps, MinSep: minSep, WarmStart: true}},
		"epoch-min-sep":                    {EpochMinSep: &sampling.EpochMinSep{Steps: steps, MinSep: minSep, EpochSteps: 8}},
		"multi-owner":                      {MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: steps, MinSep: minSep}},
		"fixed":                            {Fixed: &sampling.Fixed{BatchSize: 10, Steps: steps, MinSep: minSep}},
		"rotation":                         {Rotation: &sampling.Rotation{Steps: steps, EpochSteps: 8}},
	}
}

// TestSchemesPage holds the tables of docs/schemes.md against Method, for one example per owner and
// for two, and what the page says of a maximum batch size.
func TestSchemesPage(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/schemes.md"))(t)
	samplers := samplersOfAllKinds(t)
	for _, name := range sampling.KindNames() {
		if _, ok := samplers[name]; !ok {
			t.Errorf("%s has no row in docs/schemes.md: give it one in each table, and its parameters here", name)
		}
	}
	strategies := []*mechanism.Strategy{
		mechanism.Identity(steps), banded(steps, minSep), banded(steps, minSep+2),
		{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: []float64{1, -0.5}},
	}
	words := map[Method]string{ClosedForm: "closed form", PLD: "PLD", MonteCarlo: "samples", Unproven: "not proven", "": "refused"}
	method := func(r Run) Method {
		m, err := r.Method()
		var refused *RefusedError
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("%+v: %v", r, err)
		}
		return m
	}
	for examples, heading := range []string{"## One example per owner, or sampled owners\n", "## Several examples per owner\n"} {
		_, section, found := strings.Cut(string(page), heading)
		if !found {
			t.Fatalf("no section %q", heading)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		rows := 0
		for line := range strings.Lines(section) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			sampler, ok := samplers[strings.TrimSpace(cells[0])]
			if !ok {
				continue
			}
			rows++
			for i, strategy := range strategies {
				run := Run{Sampler: sampler, Strategy: strategy, MaxExamplesPerOwner: 1 + examples, Examples: 1000}
				got, want := method(run), strings.TrimSpace(cells[1+i])
				if want == "–" {
					continue // poisson has no second band within min-sep
				}
				if words[got] != want {
					t.Errorf("%s %s, column %d: %q, the page says %q", heading[3:], cells[0], i+1, words[got], want)
				}
				hasWhatItNeeds(t, run, got)
				if sampler.Fixed != nil || sampler.MultiOwner != nil {
					continue
				}
				run.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 50}
				if cut := method(run); cut != got {
					t.Errorf("%s %s, column %d, with a maximum batch size: %q, the page says %q", heading[3:], cells[0], i+1, words[cut], words[got])
				}
				if own := run.TruncatedPair(); own && got == MonteCarlo {
					t.Errorf("%s %s, column %d: samples of a truncated pair", heading[3:], cells[0], i+1)
				} else if !own && got == PLD {
					var refused *RefusedError
					if _, _, err := run.Prove(2, 1); !errors.As(err, &refused) {
						t.Errorf("%s %s, column %d: a proof without a pair: %v", heading[3:], cells[0], i+1, err)
					}
				}
			}
		}
		if rows != len(samplers) {
			t.Errorf("%s: %d rows, want %d", heading[3:], rows, len(samplers))
		}
	}
}

// hasWhatItNeeds holds that a run has a loss to sample by, or a proof.
func hasWhatItNeeds(t *testing.T, r Run, method Method) {
	t.Helper()
	switch method {
	case MonteCarlo, Unproven:
		if err := r.Loss(1).Validate(); err != nil || method == MonteCarlo && !r.TruncatedPair() {
			t.Errorf("%+v: its loss is refused: %v", r.Sampler, err)
		}
	case PLD, ClosedForm:
		if pq, qp, err := r.Prove(2, 1); err != nil || !(pq > 0 && pq < 1 && qp > 0) {
			t.Errorf("%+v: %v %v %v", r.Sampler, pq, qp, err)
		}
	}
}

// TestRatesAreRoundedUpward: bounds of what an owner takes part in are never below the exact rates.
func TestRatesAreRoundedUpward(t *testing.T) {
	const n = 30
	run := func(s sampling.Spec) Run {
		return Run{Sampler: s, Examples: 100, Strategy: mechanism.Identity(n), MaxExamplesPerOwner: 1}
	}
	for name, c := range map[string]struct {
		spec sampling.Spec
		want float64
	}{
		"epoch-min-sep": {sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: n, MinSep: 4, EpochSteps: 10}}, 1. / 10},
		"b-min-sep":     {sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .2, Steps: n, MinSep: 4, WarmStart: true}}, .2 / 1.6},
	} {
		got := must.Get(run(c.spec).participation())(t)
		for _, r := range got.rates {
			if r.prob < c.want*(1+1e-13) || r.prob > c.want*(1+1e-8) {
				t.Errorf("%s: rate %v, want hardly more than %v", name, r.prob, c.want)
			}
		}
		if len(got.rates) == 0 {
			t.Errorf("%s: no rates", name)
		}
	}
}

// twice is at most twice, at least three steps apart, and never at the first step.
func twice(p float64) sampling.Law {
	return sampling.Law{
		Start: []sampling.Start{{Point: sampling.Point{Step: 1}, Prob: 1}},
		Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
			in := sampling.Point{Step: at.Step + 3, State: at.State + 1}
			if at.State == 1 {
				in.Step = sampling.Never
			}
			return p, in, sampling.Point{Step: at.Step + 1, State: at.State}
		},
	}
}
