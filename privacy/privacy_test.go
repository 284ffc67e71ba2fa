package privacy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

func claim(t testing.TB) Claim {
	strategy := must.Get(mechanism.Toeplitz(16, []float64{0.8, 0.6}))(t)
	return Claim{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 16, MinSep: 4, WarmStart: true}}, Strategy: strategy, Epsilon: 1, Delta: 1e-2, Samples: 40_000}
}

// elsewhere draws units one by one, each from the protocol alone, in reverse order.
func elsewhere(ctx context.Context, protocol []byte, units [][]byte) (sums [][]byte, err error) {
	p, err := accounting.ParseProtocol(protocol)
	if err != nil {
		return nil, err
	}
	for i := range units {
		e := ledger.Entry{}
		if err := json.Unmarshal(units[len(units)-1-i], &e.Unit); err != nil {
			return nil, err
		}
		worker, err := calibration.NewWorker(p, e.Unit.Candidate, e.Unit.Trial)
		if err != nil {
			return nil, err
		}
		if e.Result, err = worker.Run(ctx, e.Unit.First, e.Unit.Count, 1); err != nil {
			return nil, err
		}
		b, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		sums = append(sums, b)
	}
	return sums, nil
}

// TestCertify: a certificate is the same wherever its samples are drawn, survives JSON, and holds
// when it is verified again; one that says more than its sums, or has other sums, does not.
func TestCertify(t *testing.T) {
	ctx, told := t.Context(), ""
	watching := claim(t)
	watching.Watch = func(text string) { told += text + "\n" }
	c := must.Get(Certify(ctx, watching, nil))(t)
	for _, want := range []string{"estimating σ", "verifying candidate 1 of ", " samples of direction P"} {
		if !strings.Contains(told, want) {
			t.Errorf("whoever watches is not told %q: %s", want, told)
		}
	}
	there := must.Get(Certify(ctx, claim(t), elsewhere))(t)
	kept := must.Get(json.Marshal(there))(t)
	var read Certificate
	must.Do(t, json.Unmarshal(kept, &read))
	if !bytes.Equal(read.File, c.File) || !read.Verified || read.Method != "monte carlo" || len(read.Units) == 0 {
		t.Errorf("drawn elsewhere it is another certificate: %+v", read)
	}
	if v, err := read.Verify(ctx, 50*time.Millisecond); err != nil || !(v.Delta > 0 && v.Delta < 0.02) || v.Confidence != 0.98 || v.Samples == 0 {
		t.Errorf("verified again: %+v, %v", v, err)
	}
	estimate, err := claim(t).Estimate(ctx)
	if err != nil || estimate.Proven || !(math.Abs(math.Log(estimate.Multiplier/c.NoiseMultiplier)) < 0.1) {
		t.Errorf("the estimate is %+v, %v: the certificate has σ = %g", estimate, err, c.NoiseMultiplier)
	}
	for name, forge := range map[string]func(*Certificate){
		"less noise": func(c *Certificate) { c.NoiseMultiplier *= 0.9 },
		"no units":   func(c *Certificate) { c.Units = nil },
		"its file":   func(c *Certificate) { c.File = bytes.Replace(c.File, []byte("0.01"), []byte("0.02"), 1) },
		"its sums": func(c *Certificate) {
			var e ledger.Entry
			must.Do(t, json.Unmarshal(c.Units[0], &e))
			clear(e.Result.Sums)
			c.Units[0], _ = json.Marshal(e)
		},
		"its protocol": func(c *Certificate) {
			c.Protocol = bytes.Replace(c.Protocol, []byte(`"prob": 0.1`), []byte(`"prob": 0.01`), 1)
		},
	} {
		var forged Certificate
		must.Do(t, json.Unmarshal(kept, &forged))
		forge(&forged)
		if _, err := forged.Verify(ctx, time.Millisecond); err == nil {
			t.Errorf("%s: was verified", name)
		}
	}
}

// TestNotVerified: too little noise is refused, and what was tried counts in the next try.
func TestNotVerified(t *testing.T) {
	c := claim(t)
	good := must.Get(Certify(t.Context(), c, nil))(t)
	c.NoiseMultiplier = 1.05 * good.NoiseMultiplier
	_, err := Certify(t.Context(), c, func(ctx context.Context, protocol []byte, units [][]byte) ([][]byte, error) {
		sums, err := elsewhere(ctx, protocol, units)
		for i, b := range sums { // as if every value were the largest
			var e ledger.Entry
			if err := json.Unmarshal(b, &e); err != nil {
				return nil, err
			}
			block := 0
			clear(e.Result.Sums)
			for _, count := range e.Unit.Blocks {
				for range count {
					e.Result.Sums[block].Add(1)
				}
				block++
			}
			sums[i], _ = json.Marshal(e)
		}
		return sums, err
	})
	var rejected *NotVerifiedError
	if !errors.As(err, &rejected) || len(rejected.Earlier) != 1 || !(rejected.Earlier[0].FailureProbability > 0) {
		t.Fatalf("%+v, %v", rejected, err)
	}
	c = claim(t)
	c.Earlier = rejected.Earlier
	again := must.Get(Certify(t.Context(), c, nil))(t)
	if !strings.Contains(string(again.Protocol), rejected.Earlier[0].ProtocolSHA256) {
		t.Error("the next protocol does not count the one that was rejected")
	}
}

// TestProven: a closed form needs no samples, and is the least noise that a Gaussian needs.
func TestProven(t *testing.T) {
	c := Claim{Sampler: sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 2, Steps: 8, MinSep: 8}}, Strategy: mechanism.Identity(8), Epsilon: 1, Delta: 1e-5}
	certificate := must.Get(Certify(t.Context(), c, nil))(t)
	want := must.Get(accounting.GaussianNoiseMultiplier(1, 1e-5, 1))(t)
	v, err := certificate.Verify(t.Context(), time.Second)
	if err != nil || !(v.Delta <= 1e-5) || v.Confidence != 1 || len(certificate.Units) != 0 || math.Abs(certificate.NoiseMultiplier/want-1) > 1e-6 {
		t.Errorf("σ = %g, want %g; δ %g, %v", certificate.NoiseMultiplier, want, v.Delta, err)
	}
	c.MaxExamplesPerOwner = -1
	must.Fail(t, "-1 examples of an owner", "must be at least 1")(Certify(t.Context(), c, nil))
}

// TestOwnStrategy: a matrix of the user's own with the numbers of a family has the family's
// certificate; one with a negative entry has a proof for fixed batches, with the sensitivity of its worst signs,
// and is refused for random participations, with what helps.
func TestOwnStrategy(t *testing.T) {
	rows := func(second float64) func(i int) []float64 {
		return func(i int) []float64 { return []float64{second, 0.8}[max(0, 1-i):] }
	}
	own := func(second float64) *mechanism.Strategy {
		s := must.Get(mechanism.FromRows(16, rows(second)))(t)
		return s
	}
	c := claim(t)
	c.NoiseMultiplier = 1.3
	family := must.Get(Certify(t.Context(), c, nil))(t)
	c.Strategy = own(0.6)
	same, err := Certify(t.Context(), c, nil)
	if err != nil || same.NoiseMultiplier != family.NoiseMultiplier || same.Method != family.Method {
		t.Errorf("%+v, %v", same, err)
	}
	c.Strategy = own(-0.6)
	must.Fail(t, "a negative entry", "negative entry")(Certify(t.Context(), c, nil))
	c = Claim{Sampler: sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 2, Steps: 16, MinSep: 1}}, Strategy: own(-0.6), Epsilon: 1, Delta: 1e-5}
	fixed := must.Get(Certify(t.Context(), c, nil))(t)
	// Contributions of alternating signs meet in every row: ±(.8 + .6), and .8 in the first.
	want, err := accounting.GaussianNoiseMultiplier(1, 1e-5, math.Sqrt(0.8*0.8+15*1.4*1.4))
	if err != nil || math.Abs(fixed.NoiseMultiplier/want-1) > 1e-6 {
		t.Errorf("σ = %g, want %g: %v", fixed.NoiseMultiplier, want, err)
	}
}

// TestTooManyStates: bands and min-sep with too large a table are an error that says so.
func TestTooManyStates(t *testing.T) {
	strategy := must.Get(mechanism.BSR(100, 100))(t)
	sampler := sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.05, Steps: 100, MinSep: 10, WarmStart: true}}
	_, err := Claim{Sampler: sampler, Strategy: strategy, Epsilon: 2, Delta: 1e-5}.Estimate(t.Context())
	must.Fail(t, "", "too many states")(err)
}

func Example() {
	strategy, err := mechanism.BSR(8, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	once := sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 8, Period: 8}}
	claim := Claim{Sampler: once, Strategy: strategy, Epsilon: 2, Delta: 1e-2, Samples: 30_000}
	certificate, err := Certify(context.Background(), claim, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := certificate.Verify(context.Background(), 10*time.Millisecond)
	fmt.Printf("(%g, %g) is verified: %t; again with a probability of %g: %v\n",
		certificate.Epsilon, certificate.Delta, certificate.Verified, again.Confidence, err)
	// Output:
	// (2, 0.01) is verified: true; again with a probability of 0.98: <nil>
}
