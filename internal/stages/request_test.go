package stages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestRequestAgrees changes one field of a request at a time, which then asks for another claim
// than the certificate's, but for the budget.
func TestRequestAgrees(t *testing.T) {
	banded := &mechanism.Strategy{Kind: mechanism.KindBandedToeplitz, Steps: 8, Toeplitz: []float64{1, 0.5, 0.3}}
	run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.25, Steps: 8}}, Strategy: banded, MaxExamplesPerOwner: 2, Examples: 90}
	c := &accounting.Certificate{Epsilon: 2, Delta: 1e-5, NoiseMultiplier: 1.5, Run: run, Unit: accounting.UnitOwner,
		Points: []accounting.Claimed{{Epsilon: 2, Delta: 1e-5}, {Epsilon: 1, Delta: 1e-3}}}
	p := calibration.Problem{Run: run, Unit: accounting.UnitOwner, Epsilon: 2, Delta: 1e-5, NoiseMultiplier: 1.5, Samples: 1000, AlsoEpsilon: []float64{1, 0.5}}
	for name, account := range map[string]Account{"a file": {}, "bands": {Bands: 3}} {
		asked, err := account.request(p)
		if err != nil {
			t.Fatal(err)
		}
		for change, x := range map[string]struct {
			to     func(r *Request)
			agrees bool
		}{
			"none":             {func(*Request) {}, true},
			"samples":          {func(r *Request) { r.Samples = 7 }, true},
			"CPU time":         {func(r *Request) { r.CPUTime = "1s" }, true},
			"any noise":        {func(r *Request) { r.NoiseMultiplier = 0 }, true},
			"noise":            {func(r *Request) { r.NoiseMultiplier = 1.4 }, false},
			"sampler":          {func(r *Request) { r.Sampler = sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.2, Steps: 8}} }, false},
			"strategy":         {func(r *Request) { r.Strategy[3]++ }, false},
			"bands":            {func(r *Request) { r.Bands++ }, false},
			"examples":         {func(r *Request) { r.Examples++ }, true}, // as of data that a certificate was taken over for
			"per owner":        {func(r *Request) { r.MaxExamplesPerOwner = 1 }, false},
			"unit":             {func(r *Request) { r.Unit = accounting.UnitExample }, false},
			"epsilon":          {func(r *Request) { r.Epsilon = 1 }, false},
			"delta":            {func(r *Request) { r.Delta = 1e-6 }, false},
			"further epsilon":  {func(r *Request) { r.AlsoEpsilon = []float64{0.5} }, false},
			"no further":       {func(r *Request) { r.AlsoEpsilon = nil }, true},
			"another strategy": {func(r *Request) { r.Bands, r.Strategy = 0, manifest.Digest{} }, false},
		} {
			r := asked
			x.to(&r)
			if r.agrees(c) != x.agrees {
				t.Errorf("%s: %s changed: agrees %v, want %v", name, change, !x.agrees, x.agrees)
			}
		}
	}
}

// TestRequestInOtherBytes: white space that an editor has changed in a request is no difference, and
// hides none of the certificate.
func TestRequestInOtherBytes(t *testing.T) {
	d := newResults(t, fmt.Sprintf(planOfNumbers, poisson, identity))
	d.make("strategy")
	d.make("account")
	rewrite := func(name string, change func(b []byte) []byte) {
		b, err := os.ReadFile(store.Join(d.Out, name))
		d.must(err)
		d.must(os.WriteFile(store.Join(d.Out, name), change(b), 0o644))
	}
	compact := func(b []byte) []byte {
		var line bytes.Buffer
		d.must(json.Compact(&line, b))
		return line.Bytes()
	}
	rewrite(manifest.LedgerFolder+"/"+manifest.RequestFile, compact)
	there, differs, err := d.Result("account").Compare(t.Context())
	if !there || differs != nil || err != nil {
		t.Errorf("the request: there %v, %q, %v", there, differs, err)
	}
	if there, differs, err = d.Result("account").Unfinished(t.Context()); !there || differs != nil || err != nil {
		t.Errorf("the unfinished account: there %v, %q, %v", there, differs, err)
	}
	rewrite(manifest.CertificateFile, compact)
	if _, differs, err = d.Result("account").Compare(t.Context()); !slices.Contains(differs, "its bytes do not follow from its ledger") || err != nil {
		t.Errorf("the certificate too: %q, %v", differs, err)
	}
}
