package montecarlo

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/internal/stream"
)

func testKey(t *testing.T) stream.Key { return testKeyOf(t.Name()) }

func testKeyOf(name string) stream.Key { return stream.PublicKey("test", []byte(name)) }

func mustSampler(t testing.TB, s Spec, d Direction, key stream.Key) *Sampler {
	t.Helper()
	sampler, err := NewSampler(s, d, key)
	if err != nil {
		t.Fatal(err)
	}
	return sampler
}

// sqrtColumn is the first column of the banded square root, of norm 1.
func sqrtColumn(bands int) []float64 {
	c := []float64{1}
	sum := 1.0
	for j := 1; j < bands; j++ {
		c = append(c, c[j-1]*(1-0.5/float64(j)))
		sum += c[j] * c[j]
	}
	for j := range c {
		c[j] /= math.Sqrt(sum)
	}
	return c
}

// kinds is one spec of every distribution.
func kinds() map[string]Spec {
	with := func(change func(*Spec)) Spec {
		s := Spec{Scheme: BMinSep, Steps: 40, MinSep: 4, Prob: 0.1, WarmStart: true, NoiseMultiplier: 1.5, Strategy: toeplitz(40, sqrtColumn(4)...)}
		change(&s)
		return s
	}
	return map[string]Spec{
		"warm":    with(func(*Spec) {}),
		"cold":    with(func(s *Spec) { s.WarmStart = false }),
		"poisson": with(func(s *Spec) { s.Scheme, s.MinSep, s.Strategy = Poisson, 1, toeplitz(40, 1) }),
		"balls": with(func(s *Spec) {
			s.Scheme, s.Prob, s.MinSep, s.Strategy = BallsInBins, 0, 10, toeplitz(40, sqrtColumn(20)...)
		}),
		"epoch, two": with(func(s *Spec) {
			s.Scheme, s.Prob, s.WarmStart, s.EpochSteps, s.MaxExamplesPerOwner = EpochMinSep, 0, false, 9, 2
		}),
		"epoch":            with(func(s *Spec) { s.Scheme, s.Prob, s.WarmStart, s.EpochSteps = EpochMinSep, 0, false, 9 }),
		"epoch of min-sep": with(func(s *Spec) { s.Scheme, s.Prob, s.WarmStart, s.EpochSteps = EpochMinSep, 0, false, 4 }),
		"rotation": with(func(s *Spec) {
			s.Scheme, s.Prob, s.WarmStart, s.MinSep, s.EpochSteps = Rotation, 0, false, 1, 9
		}),
		"long epoch": with(func(s *Spec) { s.Scheme, s.Prob, s.WarmStart, s.EpochSteps = EpochMinSep, 0, false, 55 }),
		"cyclic":     with(func(s *Spec) { s.Scheme, s.WarmStart = CyclicPoisson, false }),
		"phase":      with(func(s *Spec) { s.Scheme = CyclicPoisson }),
		"two":        with(func(s *Spec) { s.MaxExamplesPerOwner = 2 }),
		"two cold":   with(func(s *Spec) { s.MaxExamplesPerOwner, s.WarmStart = 2, false }),
		"three":      with(func(s *Spec) { s.MaxExamplesPerOwner, s.NoiseMultiplier = 3, 2 }),
		"published": with(func(s *Spec) {
			s.Scheme, s.MaxExamplesPerOwner, s.WarmStart, s.Published = MultiOwner, 3, false, true
		}),
		"sampled":         with(func(s *Spec) { s.Scheme, s.MaxExamplesPerOwner = MultiOwner, 3 }),
		"truncated":       with(func(s *Spec) { s.MaxBatchSize, s.Examples = 5, 60 }),
		"truncated, cold": with(func(s *Spec) { s.MaxBatchSize, s.Examples, s.WarmStart = 3, 20, false }),
	}
}

// TestReciprocalMean: E_P[Q/P] = E_Q[P/Q] = 1 for every distribution, that is, the mean of e^-loss
// in both directions. It fails when participations do not follow the distribution that their loss
// is computed with. See reciprocalFault for what is compared.
func TestReciprocalMean(t *testing.T) {
	samples := 80000
	if testing.Short() {
		samples = 16000
	}
	for name, s := range kinds() {
		if fault := reciprocalFault(t, s, s, samples); fault != nil {
			t.Errorf("%s: %v", name, fault)
		}
	}
	// Wrong twins: participations of one spec, losses of another.
	s := kinds()["warm"]
	closer, rarer, owner := s, s, s
	closer.MinSep, rarer.Prob, owner.MaxExamplesPerOwner = 3, 0.08, 2
	for name, wrong := range map[string]Spec{"smaller min-sep": closer, "rarer": rarer, "owner of two": owner} {
		if fault := reciprocalFault(t, s, wrong, 150000); fault == nil {
			t.Errorf("participations of %s were not told from those of the loss", name)
		}
	}
	s = kinds()["epoch"]
	s.EpochSteps, s.NoiseMultiplier = 5, 1
	longer := s
	longer.EpochSteps = 6
	if fault := reciprocalFault(t, s, longer, 150000); fault == nil {
		t.Error("participations of epochs one step longer were not told from those of the loss")
	}
}

// reciprocalFault judges the identity Pr_P[loss ≤ ln cut] = E_Q[f; f ≤ cut], f = P/Q, and the same
// with P and Q exchanged: two means of values in [0, cut] that must agree.
func reciprocalFault(t *testing.T, s, played Spec, samples int) error {
	const cut = 4.0
	var losses [2][]float64
	for i, d := range Directions {
		sampler := mustSampler(t, s, d, testKey(t))
		sampler.process = newParticipations(played)
		losses[i] = make([]float64, samples)
		sampler.Losses(losses[i], 0)
	}
	for i := range Directions {
		within, weighted, square := 0.0, 0.0, 0.0
		for j := range samples {
			if losses[i][j] >= -math.Log(cut) { // e^-loss ≤ cut
				v := math.Exp(-losses[i][j])
				weighted += v
				square += v * v
			}
			if -losses[1-i][j] >= -math.Log(cut) { // the same event in the other direction
				within++
			}
		}
		n := float64(samples)
		p := within / n
		variance := square - weighted*weighted/n + n*p*(1-p)
		if err := stattest.Sum(weighted-within, 0, variance, 2*cut); err != nil {
			return fmt.Errorf("direction %s: %w", Directions[i], err)
		}
	}
	return nil
}

// TestAddresses: any range computed anywhere gives the same losses.
func TestAddresses(t *testing.T) {
	for name, s := range kinds() {
		for _, d := range Directions {
			sampler := mustSampler(t, s, d, testKey(t))
			all := make([]float64, 100)
			sampler.Losses(all, 0)
			for _, r := range [][2]int{{0, 1}, {7, 9}, {8, 16}, {13, 77}, {99, 100}} {
				part := make([]float64, r[1]-r[0])
				sampler.Fork().Losses(part, uint64(r[0]))
				if !slices.Equal(part, all[r[0]:r[1]]) {
					t.Errorf("%s %s: samples %d to %d differ", name, d, r[0], r[1])
				}
			}
			other := make([]float64, 8)
			mustSampler(t, s, d, stream.PublicKey("other", nil)).Losses(other, 0)
			if slices.Equal(other, all[:8]) {
				t.Errorf("%s %s: another key, the same losses", name, d)
			}
			s := s
			s.NoiseMultiplier *= 1 + 1e-15
			mustSampler(t, s, d, testKey(t)).Losses(other, 0)
			if math.Abs(other[0]-all[0]) < 1e-9 && math.Abs(other[1]-all[1]) < 1e-9 {
				t.Errorf("%s %s: another spec, the same randomness", name, d)
			}
		}
	}
}

// TestLossesAgainstEvaluator holds sampled losses to the log-domain distribution at the same
// outputs.
func TestLossesAgainstEvaluator(t *testing.T) {
	for name, s := range kinds() {
		for _, d := range Directions {
			sampler := mustSampler(t, s, d, testKey(t))
			e, err := NewEvaluator(s, d)
			if err != nil {
				t.Fatal(err)
			}
			losses := slices.Clone(sampler.batch(5)[:])
			in := sampler.input(5)
			for lane, loss := range losses {
				y := sampler.kernel.Outputs(&in, lane)
				var want float64
				if s.MaxBatchSize > 0 {
					want, err = e.LogRatioCounts(y, sampler.kernel.Ratios(0)[lane].(*likelihood.Truncated).Counts)
				} else {
					want, err = e.LogRatio(y)
				}
				if err != nil {
					t.Fatal(err)
				}
				if d == Q {
					want = -want
				}
				if !(math.Abs(loss-want) < 1e-11) {
					t.Errorf("%s %s: %.15g, want %.15g", name, d, loss, want)
				}
			}
		}
	}
}

type goldenDelta struct {
	Epsilon float64 `json:"eps"`
	PQ      float64 `json:"delta_PQ"`
	SEPQ    float64 `json:"se_PQ"`
	QP      float64 `json:"delta_QP"`
	SEQP    float64 `json:"se_QP"`
}

type goldenMonteCarlo struct {
	Scheme     string        `json:"scheme"`
	Steps      int           `json:"n"`
	MinSep     int           `json:"b"`
	Prob       float64       `json:"p"`
	ProbCyclic float64       `json:"p_cyclic"`
	Sigma      float64       `json:"sigma"`
	Start      string        `json:"start"`
	Column     []float64     `json:"c"`
	Owned      int           `json:"k_u"`
	Epoch      int           `json:"epoch"`
	Deltas     []goldenDelta `json:"deltas"`
}

func (g goldenMonteCarlo) spec() Spec {
	s := Spec{Scheme: BMinSep, Steps: g.Steps, MinSep: g.MinSep, Prob: g.Prob, WarmStart: g.Start == "warm", NoiseMultiplier: g.Sigma,
		Strategy: toeplitz(g.Steps, g.Column...), MaxExamplesPerOwner: g.Owned}
	switch g.Scheme {
	case "balls_in_bins":
		s.Scheme, s.Prob = BallsInBins, 0
	case "epoch_min_sep":
		s.Scheme, s.EpochSteps = EpochMinSep, g.Epoch
	case "cyclic_poisson_random_shift":
		s.Scheme, s.Prob, s.WarmStart = CyclicPoisson, g.ProbCyclic, true
	case "multi_attribution_alg3_thm6.1":
		s.Scheme, s.Published = MultiOwner, true
	}
	return s
}

// TestGoldenDeltas compares δ in both directions with reference estimates of 4e5 to 1e6 samples. A
// figure is refused when it is more than 4 combined standard errors off. That happens to one
// correct figure in 16,000, so to one of the 60 with probability 4e-3; the seed being fixed and
// samples being the same everywhere, it happens once or never. Figures of fewer than 30 expected
// hits, whose error is not normal, are left out.
func TestGoldenDeltas(t *testing.T) {
	samples := uint64(1 << 16)
	if testing.Short() {
		samples = 1 << 14
	}
	compared := 0
	for _, name := range []string{"mc_bminsep.json", "mc_bnb_cyclic.json", "mc_multi_attribution.json", "mc_epoch.json"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Cases []goldenMonteCarlo }
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		for i, c := range file.Cases {
			if c.Steps > 300 && testing.Short() {
				continue
			}
			var epsilons []float64
			for _, d := range c.Deltas {
				epsilons = append(epsilons, d.Epsilon)
			}
			for _, direction := range Directions {
				r, err := mustSampler(t, c.spec(), direction, testKey(t)).Record(context.Background(), 0, samples, epsilons, 0)
				if err != nil {
					t.Fatal(err)
				}
				for j, want := range c.Deltas {
					ref, refError := want.PQ, want.SEPQ
					if direction == Q {
						ref, refError = want.QP, want.SEQP
					}
					got := r.Sums[j].Mean(r.Count)
					rough, standardError := r.Losses.Delta(want.Epsilon)
					if rough < got || rough > got+2*BucketWidth {
						t.Errorf("%s case %d direction %s ε = %g: histogram says %g, sum %g", name, i, direction, want.Epsilon, rough, got)
					}
					if refError == 0 || ref/refError < 6 || got < 30/float64(samples) {
						continue
					}
					compared++
					if z := math.Abs(got-ref) / math.Hypot(refError, standardError); z > 4 {
						t.Errorf("%s case %d direction %s ε = %g: δ = %g ± %g, want %g ± %g", name, i, direction, want.Epsilon, got, standardError, ref, refError)
					}
				}
			}
		}
	}
	if compared < 25 {
		t.Errorf("only %d figures were compared", compared)
	}
	t.Logf("%d figures compared", compared)
}

// TestSpecialCases: equal settings give equal losses. b-min-sep with b = 1 is Poisson sampling;
// with p = 1 and a warm start it is balls-in-bins; with one part cyclic Poisson is Poisson; an
// owner with one example is an example.
func TestSpecialCases(t *testing.T) {
	n := 60
	base := Spec{Scheme: BMinSep, Steps: n, MinSep: 6, Prob: 1, WarmStart: true, NoiseMultiplier: 1, Strategy: toeplitz(n, sqrtColumn(6)...)}
	balls := base
	balls.Scheme, balls.Prob, balls.WarmStart = BallsInBins, 0, false
	bins := base
	bins.Scheme, bins.Prob, bins.WarmStart, bins.EpochSteps = EpochMinSep, 0, false, 6
	epoch, once := bins, base
	epoch.EpochSteps, once.MinSep, once.Prob = n+13, n, 1.0/14 // a rate of p/(1+(n-1)p) = 1/(n+13)
	one := base
	one.MinSep, one.Prob, one.Strategy = 1, 0.1, toeplitz(n, 1)
	poisson, cyclic, alone, algorithm3, published := one, one, one, one, one
	poisson.Scheme = Poisson
	cyclic.Scheme = CyclicPoisson
	alone.MaxExamplesPerOwner = 1
	algorithm3.Scheme = MultiOwner
	published.Scheme, published.WarmStart, published.Published = MultiOwner, false, true
	y := make([]float64, n)
	for i := range y {
		y[i] = math.Sin(float64(i*i)) * 2
	}
	for name, pair := range map[string][2]Spec{"balls-in-bins": {base, balls}, "epochs of min-sep": {bins, balls}, "at most once": {epoch, once}, "poisson": {one, poisson},
		"cyclic": {one, cyclic}, "one example": {one, alone},
		"algorithm 3": {one, algorithm3}, "its published distribution": {one, published}} {
		var losses [2]float64
		for i, s := range pair {
			e, err := NewEvaluator(s, P)
			if err != nil {
				t.Fatal(err)
			}
			if losses[i], err = e.LogRatio(y); err != nil {
				t.Fatal(err)
			}
		}
		if math.Abs(losses[0]-losses[1]) > 1e-12*(1+math.Abs(losses[0])) {
			t.Errorf("%s: %.15g and %.15g", name, losses[0], losses[1])
		}
	}
}

// TestFrozenLosses holds the addresses: do not change these figures. A verification is repeated by
// anybody from its key.
func TestFrozenLosses(t *testing.T) {
	for name, want := range map[string][2]float64{
		"warm":      {0.127476861762, -0.682315442106},
		"balls":     {0.659869966714, 0.715402017071},
		"cyclic":    {-0.123944789534, 0.073685958242},
		"two":       {1.151175600521, 0.528304722384},
		"sampled":   {0.617400145400, 0.870260380692},
		"truncated": {0.065819467967, 0.726679380334},
	} {
		var got [2]float64
		for i, d := range Directions {
			losses := make([]float64, 1)
			mustSampler(t, kinds()[name], d, stream.PublicKey("frozen", []byte("losses"))).Losses(losses, 1<<33+5)
			got[i] = losses[0]
		}
		if !(math.Abs(got[0]-want[0])+math.Abs(got[1]-want[1]) < 1e-10) {
			t.Errorf("%q: {%.12f, %.12f},", name, got[0], got[1])
		}
	}
}
