package accounting

import (
	"errors"
	"os"
	"strings"
	"testing"

	"minsep/mechanism"
	"minsep/sampling"
)

// TestSchemesPage holds the tables of docs/schemes.md against Method, for one example per owner and
// for two, and what the page says of a maximum batch size.
func TestSchemesPage(t *testing.T) {
	page, err := os.ReadFile("../docs/schemes.md")
	if err != nil {
		t.Fatal(err)
	}
	const steps, minSep = 32, 4
	balanced, err := sampling.NewBalancedMinSep(steps, minSep, 3)
	if err != nil {
		t.Fatal(err)
	}
	samplers := map[string]sampling.Spec{
		"poisson":                          {Poisson: &sampling.Poisson{Prob: 0.1, Steps: steps}},
		"cyclic-poisson":                   {CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: steps, MinSep: minSep}},
		"cyclic-poisson, secret partition": {CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: steps, MinSep: minSep, SecretPartition: true}},
		"balls-in-bins":                    {BallsInBins: &sampling.BallsInBins{Steps: steps, Period: minSep}},
		"b-min-sep":                        {BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: steps, MinSep: minSep, WarmStart: true}},
		"epoch-min-sep":                    {EpochMinSep: &sampling.EpochMinSep{Steps: steps, MinSep: minSep, EpochSteps: 8}},
		"balanced-min-sep":                 {BalancedMinSep: &balanced},
		"multi-owner":                      {MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: steps, MinSep: minSep}},
		"fixed":                            {Fixed: &sampling.Fixed{BatchSize: 10, Steps: steps, MinSep: minSep}},
		"rotation":                         {Rotation: &sampling.Rotation{Steps: steps, EpochSteps: 8}},
	}
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
				if sampler.Fixed != nil || sampler.MultiOwner != nil || sampler.Rotation != nil {
					continue
				}
				run.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 50}
				if cut := method(run); cut != got {
					t.Errorf("%s %s, column %d, with a maximum batch size: %q, the page says %q", heading[3:], cells[0], i+1, words[cut], words[got])
				}
			}
		}
		if rows != len(samplers) {
			t.Errorf("%s: %d rows, want %d", heading[3:], rows, len(samplers))
		}
	}
}
