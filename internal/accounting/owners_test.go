package accounting

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestOwnersAreAccountedForAsOneExample: all that is computed of a run that owners follow is what
// is computed of the run for examples, of which there are as many as owners.
func TestOwnersAreAccountedForAsOneExample(t *testing.T) {
	strategy := banded(24, 2)
	for name, s := range map[string]sampling.Spec{
		"b-min-sep":      {BMinSep: &sampling.BMinSep{Prob: 0.02, Steps: 24, MinSep: 4, WarmStart: true}},
		"poisson":        {Poisson: &sampling.Poisson{Prob: 0.02, Steps: 24}},
		"balls-in-bins":  {BallsInBins: &sampling.BallsInBins{Steps: 24, Period: 12}},
		"epoch-min-sep":  {EpochMinSep: &sampling.EpochMinSep{Steps: 24, MinSep: 4, EpochSteps: 12}},
		"cyclic-poisson": {CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 24, MinSep: 4, SecretPartition: true}},
	} {
		for _, cut := range []*sampling.Truncation{nil, {MaxBatchSize: 40}} {
			run := Run{Sampler: s, Strategy: strategy, MaxExamplesPerOwner: 1, Examples: 400}
			if name == "poisson" {
				run.Strategy = mechanism.Identity(24)
			}
			run.Sampler.Truncation = cut
			owners := run
			owners.Sampler.Owners = &sampling.OwnerSampling{ExamplesPerOwner: 5}
			describe := func(r Run) string {
				method, err := r.Method()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				text := fmt.Sprint(method, r.stepLoss(0.9), r.Majorized())
				pq, qp, err := r.Prove(0.9, 2)
				text += fmt.Sprint(pq, qp, err)
				if cut != nil {
					for _, d := range montecarlo.Directions {
						cost, err := r.TruncationCost(d, 2)
						text += fmt.Sprint(cost, err)
					}
					most, err := r.SuggestMaxBatchSize(2, 1e-3)
					text += fmt.Sprint(most, err)
				}
				return text
			}
			if got, want := describe(owners), describe(run); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
			owners.MaxExamplesPerOwner = 2
			if err := owners.Validate(); err == nil || !strings.Contains(err.Error(), "must be 1 where owners are sampled") {
				t.Errorf("%s: two examples per owner: got %v", name, err)
			}
		}
	}
}

// ownerProtocol is a toy protocol for owners.
func ownerProtocol(t *testing.T) *Protocol {
	t.Helper()
	need := must.Get(GaussianNoiseMultiplier(1, 0.01, 1))(t)
	p := toyProtocol(t, 1, 0.01, 0.009, 1.1*need)
	p.Run.Sampler.Owners = &sampling.OwnerSampling{ExamplesPerOwner: 3}
	return p
}

// TestCertificateOfOwners: it says whom it protects and what the trainer must do, in a format of
// its own, so that no reader takes it for one of examples.
func TestCertificateOfOwners(t *testing.T) {
	p := ownerProtocol(t)
	c := must.Get(p.Certificate(run(p, rand.New(rand.NewPCG(1, 1)))))(t)
	data := must.Get(c.Encode())(t)
	for _, want := range []string{`"format": 2`, `"unit": "owner"`, `"owners": {`, "clipped mean", "the mean is clipped to the clip norm, once for each owner",
		"the expected number of owners", "owners draw their participations"} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("the certificate does not say %q", want)
		}
	}
	for _, not := range []string{"each example is clipped", "zero-out of one example"} {
		if bytes.Contains(data, []byte(not)) {
			t.Errorf("the certificate says %q", not)
		}
	}
	if got := c.Protected(); got != "an owner with any number of examples" {
		t.Errorf("protects %s", got)
	}
	for _, text := range []string{c.Statement(words.UsualNouns), c.ModelCard(words.UsualNouns)} {
		if !strings.Contains(text, "brings at most 3 examples, with an expected batch size of ") || !strings.Contains(text, "% of the owners") {
			t.Errorf("the text to paste says nothing of batches: %s", text)
		}
		if !strings.Contains(text, "sampling of owners") || strings.Contains(text, "of an example") {
			t.Errorf("the text to paste says of owners: %s", text)
		}
	}
	read, err := ParseCertificate(data)
	if err != nil || !reflect.DeepEqual(read, c) {
		t.Errorf("read back: %+v, %v", read, err)
	}
	for name, change := range map[string][2]string{
		"the format of examples":       {`"format": 2`, `"format": 1`},
		"without owners":               {"\"owners\": {\n        \"examples_per_owner\": 3\n      }", ""},
		"for single examples":          {`"unit": "owner"`, `"unit": "example"`},
		"several examples accounted":   {`"max_examples_per_owner": 1`, `"max_examples_per_owner": 2`},
		"more than an owner may bring": {`"examples_per_owner": 3`, `"examples_per_owner": 0`},
	} {
		changed := bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(changed, data) {
			t.Fatalf("%s: nothing was changed", name)
		}
		changed = bytes.Replace(changed, []byte(",\n      \n"), []byte("\n"), 1)
		if _, err := ParseCertificate(changed); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	p.Unit = UnitExample
	must.Fail(t, "a claim for single examples", "must be owner where owners are sampled")(p.Validate())
}

func TestProtectedInTheDatasNouns(t *testing.T) {
	nouns := words.Nouns{OwnerNoun: "author", ExampleNoun: "photo"}
	for unit, want := range map[Unit]string{
		UnitOwner:   "an author of whom at most 2 photos are kept",
		UnitExample: "SINGLE PHOTOS ONLY: AN AUTHOR OF SEVERAL PHOTOS IS NOT PROTECTED",
	} {
		if got := unit.Protected(Run{MaxExamplesPerOwner: 2}, nouns); got != want {
			t.Errorf("%s: %s", unit, got)
		}
	}
}
