package accounting

import (
	"math/rand/v2"
	"strings"
	"testing"

	"minsep/internal/words"
	"minsep/sampling"
)

// TestStatement: the paragraph says how large batches are, one true positive rate, what the
// training must meet in clauses, and apart from these what the proof used.
func TestStatement(t *testing.T) {
	p := ownerProtocol(t)
	p.Run.Sampler.Owners = &sampling.OwnerSampling{ExamplesPerOwner: 1}
	c, err := p.Certificate(run(p, rand.New(rand.NewPCG(1, 1))))
	if err != nil {
		t.Fatal(err)
	}
	text := c.Statement(words.UsualNouns)
	if !strings.Contains(text, "brings at most 1 example, with ") || strings.Contains(text, "1 examples") {
		t.Errorf("one example is not singular: %s", text)
	}
	if n := strings.Count(text, "true positive rate"); n > 1 {
		t.Errorf("%d true positive rates: %s", n, text)
	}
	assumed, proof, ok := strings.Cut(text, ". The proof rests on the following: ")
	if !ok || !strings.HasPrefix(proof, dominationText) || !strings.Contains(proof, "; independent events are composed") {
		t.Errorf("what the proof rests on is %q", proof)
	}
	for _, a := range c.Assumptions {
		if !strings.Contains(text, a.Text+" ("+a.Source+")") {
			t.Errorf("nothing of %q", a.Text)
		}
	}
	_, assumed, _ = strings.Cut(assumed, "It is assumed that ")
	if n := strings.Count(assumed, "; that "); n != 5 || !strings.Contains(assumed, "AES in counter mode gives") {
		t.Errorf("%d clauses after the first: %s", n, assumed)
	}
	r := Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .0625, Steps: 4}}}
	if got, want := describeBatch(r, "owners"), ", with an expected batch size of 6.25 % of the owners"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Examples = 160
	if got, want := describeBatch(r, "examples"), ", with an expected batch size of 10 of 160 examples"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Sampler = sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 8, Steps: 4, MinSep: 2}}
	if got, want := describeBatch(r, "examples"), ", with batches of 8 examples"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, list := range [][]Assumption{{{sensitivityText, "F2"}}, {{othersText, "F4"}}} {
		if training, proof := cited(list); len(training) != 0 || len(proof) != 1 {
			t.Errorf("%v is taken for what the training must meet", list)
		}
	}
}
