package stages

import (
	"os"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// trained makes every result of a plan of a graph.
func trained(t *testing.T) (*results, Present) {
	d := newResults(t, planOfGraph)
	for _, name := range []string{"bound", "strategy", "account", "form", "noise"} {
		d.make(name)
	}
	here := must.Get(ReadPresent(t.Context(), d.Out))(t)
	return d, here
}

// wants fails unless an error says why, or there is none where "" is wanted.
func wants(t *testing.T, name string, err error, why string) {
	t.Helper()
	if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
		t.Errorf("%s: %v, want %q", name, err, why)
	}
}

// TestResultsOfOneTraining changes one fact of a claim or of batches after the other, and holds it
// against a directory with a certificate, batches and noise.
func TestResultsOfOneTraining(t *testing.T) {
	_, here := trained(t)
	type facts struct {
		run  accounting.Run
		unit accounting.Unit
		of   Examples
		σ    float64
	}
	base := facts{here.certificate.Run, here.certificate.Unit, here.table.examples(), here.certificate.NoiseMultiplier}
	for _, c := range []struct {
		name             string
		change           func(f *facts)
		claim, toBatches string // why a claim, and batches, of these facts are refused; "" if they are not
	}{
		{"nothing", func(*facts) {}, "", ""},
		{"prob", func(f *facts) { f.run.Sampler.Poisson = &sampling.Poisson{Prob: 0.5, Steps: 8} },
			"poisson prob is 0.5 in the claim, 0.25 in the batches", "poisson prob is 0.25 in the claim, 0.5 in the batches"},
		{"maximum", func(f *facts) { f.run.Sampler.Truncation = nil }, "truncation max_batch_size is absent in the claim", "truncation max_batch_size is 60 in the claim"},
		{"examples per owner of the claim", func(f *facts) { f.run.MaxExamplesPerOwner = 0 }, "the bounded table has one with 1", ""},
		{"examples per owner of the table", func(f *facts) { f.of.MostPerOwner = 3 }, "", "the bounded table has one with 3"},
		{"examples of the claim", func(f *facts) { f.run.Examples = 99 }, "the claim is for 99 examples, there are 100", ""},
		{"examples of the table", func(f *facts) { f.of.Copies = 99 }, "", "the claim is for 100 examples, there are 99"},
		{"another table", func(f *facts) { f.of.Identity = "bounded 00" }, "batches is of examples", "bounded is of examples"},
		{"another matrix", func(f *facts) {
			f.run.Strategy = &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, 0.5}}
		}, "the noise is of another strategy than the claim", ""},
		{"more noise", func(f *facts) { f.σ *= 1.001 }, "and the claim needs", ""},
		{"less noise", func(f *facts) { f.σ *= 0.999 }, "", ""},
	} {
		f := base
		c.change(&f)
		wants(t, c.name+" of a claim", here.WithClaim(f.run, f.unit, f.of, f.σ).Agree(), c.claim)
		wants(t, c.name+" of batches", here.WithBatches(f.run.Sampler, f.of).Agree(), c.toBatches)
	}
}

// TestParametersOfBatches: batches and a claim of one sampler agree only if both name its parameters.
func TestParametersOfBatches(t *testing.T) {
	_, here := trained(t)
	batches, claim := *here.batches, *here.certificate
	for name, change := range map[string]func(){
		"":                  func() {},
		"of the claim":      func() { claim.PlanSHA256 = strings.Repeat("0", 64) },
		"of the index":      func() { batches.params[0]++ },
		"of a claim beside": func() { claim.PlanSHA256 = "" },
	} {
		batches, claim = *here.batches, *here.certificate
		change()
		refused := failed(Present{batches: &batches}.agreement(&claim)) != nil
		if want := name == "of the claim" || name == "of the index"; refused != want {
			t.Errorf("other parameters %q: refused %v", name, refused)
		}
	}
}

// TestAgreement: a claim that does not cover the examples is told from one that does.
func TestAgreement(t *testing.T) {
	poisson := sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.25, Steps: 8}}
	owners := sampling.Spec{Poisson: poisson.Poisson, Owners: &sampling.OwnerSampling{ExamplesPerOwner: 2}}
	for _, c := range []struct {
		name    string
		sampler sampling.Spec
		unit    accounting.Unit
		most    int
		of      Examples
		want    string
	}{
		{"as many", poisson, accounting.UnitOwner, 3, Examples{MostPerOwner: 3}, ""},
		{"too many", poisson, accounting.UnitOwner, 2, Examples{MostPerOwner: 3}, "the bounded table has one with 3"},
		{"single examples", poisson, accounting.UnitExample, 1, Examples{MostPerOwner: 3}, ""},
		{"copies", poisson, accounting.UnitExample, 1, Examples{MostPerOwner: 3, Copied: true}, "without copies of examples"},
		{"owners", owners, accounting.UnitOwner, 1, Examples{MostPerOwner: 3, Owners: 9}, ""},
		{"shared", owners, accounting.UnitOwner, 1, Examples{MostPerOwner: 3, Owners: 9, Shared: true}, ownedOnceRule},
		{"copies of owners", owners, accounting.UnitOwner, 1, Examples{MostPerOwner: 3, Owners: 9, Copied: true}, ownedOnceRule},
		{"owners of numbers", owners, accounting.UnitOwner, 1, numberedExamples(9), ownedOnceRule},
		{"nothing is known", poisson, accounting.UnitOwner, 0, Examples{Identity: "bounded 00"}, ""},
		{"several of numbers", sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 2, Steps: 8, MinSep: 2}}, accounting.UnitOwner, 2, Examples{Numbered: true, MostPerOwner: 1}, "batches of numbered examples know no owners"},
	} {
		run := accounting.Run{Sampler: c.sampler, MaxExamplesPerOwner: c.most, Examples: 9}
		got := strings.Join(failed(compared(&accounting.Certificate{Run: run, Unit: c.unit}, nil, c.of)), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestOneTraining: batches and noise of another run id or another root key are refused.
func TestOneTraining(t *testing.T) {
	d, here := trained(t)
	wants(t, "without the key", here.OneTraining(nil), "")
	wants(t, "with the key", here.OneTraining(&d.root), "")
	other := stream.NewRoot()
	wants(t, "another key", here.OneTraining(&other), "it was made with another root key")
	is := d.Run
	is.RunID = stream.NewRunID()
	d.must(os.Remove(store.Join(d.Out, manifest.RunName)))
	must.Get(ReadPresent(t.Context(), d.Out))(t)
	here, _ = ReadPresent(t.Context(), d.Out)
	wants(t, "without run.json", here.OneTraining(nil), "run.json, which would name that run, is missing")
	d.must(manifest.WriteRun(d.Out, is, nil))
	if here, _ = ReadPresent(t.Context(), d.Out); here.batches != nil || here.noise != nil {
		t.Error("batches and noise of another run are taken for the run's")
	}
	wants(t, "another run", here.OneTraining(nil), "run.json to run "+is.RunID.String())
}
