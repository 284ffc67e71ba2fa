package tilt

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling/stream"
)

// coupleCase is a problem of either law, with its patterns by enumeration.
type coupleCase struct {
	name  string
	law   law.Law
	c     *mechanism.Strategy
	sep   int
	sigma float64
	theta int
	list  []pattern
}

func (c balancedCase) couples() coupleCase {
	l := c.distribution()
	return coupleCase{c.String(), law.Balanced{Distribution: l}, c.c, c.sep, c.sigma, c.theta, balancedPatterns(l)}
}

func (c tableCase) couples(warm bool) coupleCase {
	return coupleCase{fmt.Sprintf("%v warm=%v", c, warm), law.NewMinSep(c.sep, c.p, warm), c.c, c.sep, c.sigma, c.theta, patterns(c.c.Steps, c.sep, c.p, warm)}
}

func (c coupleCase) table(t testing.TB) *couples {
	t.Helper()
	p, err := newCouples(c.law, c.c.Steps, c.theta, likelihood.NewColumns(c.c), c.sep, 1/(c.sigma*c.sigma), true)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return p
}

// total is N_θ by enumeration, and the weight of each tuple in it.
func (c coupleCase) total() (weights map[string]float64, total float64) {
	weights = map[string]float64{}
	eachTuple(c.c, c.list, c.sigma, c.theta, func(tuple []int, w float64) {
		weights[tupleKey(c.list, tuple)] += w
		total += w
	})
	return weights, total
}

// randomCoupleCase draws small problems, with overlaps that are large and fall late, and orders at
// which tuples can be enumerated.
func randomCoupleCase(rng *rand.Rand) coupleCase {
	for {
		c, _ := randomBalancedCase(rng)
		c.theta = 2 + rng.IntN(3)
		var p coupleCase
		if rng.IntN(2) == 0 {
			p = c.couples()
		} else {
			prob := []float64{rng.Float64(), .05, .3, 1, 1e-6}[rng.IntN(5)]
			p = tableCase{c.c, c.sep, prob, c.sigma, c.theta}.couples(rng.IntN(2) == 0)
		}
		if math.Pow(float64(len(p.list)), float64(p.theta)) <= 2e5 {
			return p
		}
	}
}

// TestCouplesBoundTheMoment holds N̂ against the sum over all tuples; at order 2 it is exact.
// Overlaps that are not made θ-1 times as large break it.
func TestCouplesBoundTheMoment(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	broken := 0
	for range 400 {
		c := randomCoupleCase(rng)
		_, total := c.total()
		p := c.table(t)
		if p.lnN < math.Log(total)-1e-12 || c.theta == 2 && p.lnN > math.Log(total)+1e-12 {
			t.Fatalf("%s: ln N̂ = %v, ln N = %v", c.name, p.lnN, math.Log(total))
		}
		weak := c
		weak.sigma *= math.Sqrt(float64(c.theta-1) / max(1, float64(c.theta)-1.5))
		if weak.table(t).lnN < math.Log(total)-1e-12 {
			broken++
		}
	}
	if broken < 40 {
		t.Errorf("overlaps that are too small gave a wrong bound in %d cases of 400 only", broken)
	}
}

// TestCouplesAreASupersolution holds, in states that walks reach, the probabilities of a replica
// against 1 and against the bound by which steps are passed over, and those of a step together
// against the law, the overlaps and V̂.
func TestCouplesAreASupersolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 2))
	close := 0
	for range 400 {
		c := randomCoupleCase(rng)
		c.theta = 2 + rng.IntN(5)
		p := c.table(t)
		w := &coupleWalker{couples: p, replicas: make([]replica, c.theta)}
		for range 20 {
			starts, _ := c.law.Starts()
			labels, after := make([]int, c.theta), make([]int, c.theta)
			for r := range labels {
				labels[r] = starts[rng.IntN(len(starts))].Label
				w.replicas[r] = replica{label: labels[r], took: -1}
			}
			for i := range c.c.Steps {
				got, want := 1.0, -p.logValue(i, labels)
				for r, label := range labels {
					after[r] = p.passed(label, 1)
					h := 0.0
					if c.law.Free(label) {
						h = c.law.Hazard(label, i)
					}
					if h == 0 {
						continue
					}
					stay, take := w.options(i, r, label)
					if sum := stay + take; !(sum <= 1+1e-12) || !(stay >= 0 && take >= 0) {
						t.Fatalf("%s, step %d: probabilities %v and %v", c.name, i, stay, take)
					}
					busy := p.busy[p.number[label]][i]
					if busy < 1-stay-1e-13 {
						t.Fatalf("%s, step %d: a bound of %v for %v", c.name, i, busy, 1-stay)
					}
					if h < 1 && busy < 1.01*(1-stay) {
						close++
					}
					if h == 1 || take > 0 && rng.IntN(2) == 0 {
						after[r] = p.taken[label]
						got *= take
						want += math.Log(h)
						w.replicas[r] = replica{label: after[r], since: i + 1, took: i}
					} else {
						got *= stay
						want += math.Log1p(-h)
					}
				}
				for r, x := range w.replicas {
					for s, y := range w.replicas[:r] {
						row, pair := make([]float64, c.sep), 0.0
						p.table.gram.row(row, i)
						switch {
						case x.took == i && y.took == i:
							pair = row[0]
						case x.took == i && c.law.Age(labels[s]) > 0:
							pair = row[c.law.Age(labels[s])]
						case y.took == i && c.law.Age(labels[r]) > 0:
							pair = row[c.law.Age(labels[r])]
						}
						want += pair / float64(c.theta-1)
					}
				}
				if want += p.logValue(i+1, after); math.Abs(math.Log(got)-want) > 1e-10 {
					t.Fatalf("%s, step %d: a probability of e^%v in place of e^%v", c.name, i, math.Log(got), want)
				}
				copy(labels, after)
			}
		}
	}
	if close < 1000 {
		t.Errorf("a bound was nearly attained %d times only", close)
	}
}

// logValue is ln V̂ before a step.
func (p *couples) logValue(i int, labels []int) (sum float64) {
	for r := range labels {
		for _, b := range labels[:r] {
			sum += math.Log(p.at(i, labels[r], b)) + float64(p.table.exp2[i])*math.Ln2
		}
	}
	return sum / float64(p.theta-1)
}

// TestTuplesOfCouplesFollowTheirDistribution holds drawn tuples, and how many walks end without
// one, against enumeration; those of another number or noise are rejected.
func TestTuplesOfCouplesFollowTheirDistribution(t *testing.T) {
	var cases, twins []coupleCase
	for _, c := range balancedCases {
		twin := c
		twin.sigma *= 1.5
		cases, twins = append(cases, c.couples()), append(twins, twin.couples())
	}
	for i, c := range tableCases {
		twin := c
		twin.p *= .5
		cases, twins = append(cases, c.couples(i%2 == 0)), append(twins, twin.couples(i%2 == 0))
	}
	for n, c := range cases {
		if math.Pow(float64(len(c.list)), float64(c.theta)) > 1e6 {
			continue
		}
		weights, total := c.total()
		judge := func(c coupleCase) error {
			const draws = 6000
			p := c.table(t)
			walk := p.source().walker()
			finished := 0
			u := &uniforms{bulk: stream.NewBulk(stream.PublicKey("test", []byte(c.name)))}
			var weight float64
			var hits []kernel.Hit
			for i := range draws {
				u.reset(uint64(i))
				if hits, weight = walk(hits, u); weight == 1 {
					finished++
				} else if weight != 0 || len(hits) > 0 {
					t.Fatalf("%s: a weight of %v, %v", c.name, weight, hits)
				}
			}
			mean := draws * total / math.Exp(p.lnN)
			if err := stattest.Sum(float64(finished), mean, mean, 1); err != nil {
				return fmt.Errorf("finished walks: %w", err)
			}
			sample := uint64(0)
			whole := func(hits []kernel.Hit, _ *uniforms) []kernel.Hit { // given that it finishes
				for {
					u.reset(sample)
					sample++
					var weight float64
					if hits, weight = walk(hits, u); weight == 1 {
						return hits
					}
				}
			}
			return tuplesFollow(weights, total, c.name, whole, draws)
		}
		if err := judge(c); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if judge(twins[n]) == nil {
			t.Errorf("%s: the test accepts the tuples of %s", c.name, twins[n].name)
		}
	}
}

// TestMeanOfCouples: means of values that are drawn by couples are the divergence; with a moment
// that is a tenth too small they are not.
func TestMeanOfCouples(t *testing.T) {
	const epsilon, samples = .4, 80000
	for _, c := range []balancedCase{{toeplitz(2, 1), 1, 1.5, 1.4, 3}, {toeplitz(2, 1, .5), 2, 1, .9, 3}, {toeplitz(2, 1, .5), 2, .6, 1.5, 4}} {
		var means [][]float64
		var weights []float64
		for _, a := range balancedPatterns(c.distribution()) {
			means, weights = append(means, image(c.c, a.hits)), append(weights, a.prob)
		}
		want, _ := twoSteps(means, weights, c.sigma, epsilon)
		s := c.couples().table(t).source()
		p := Proposal{Config: Config{c.spec(), epsilon, montecarlo.P}, Method: Tilted, Members: []Member{{Order: c.theta, Weight: 1, LogN: s.logN(), Couples: true}}}
		p.Slack = lossError(epsilon) + 2*s.walkError
		p.Bound = mixture{p.Members, epsilon, 1}.bound() * (1 + 2*p.Slack)
		p.Divergence = min(1, p.Bound)
		if p.Divergence < want {
			t.Errorf("%v: %v is proven, the divergence is %v", c, p.Divergence, want)
		}
		v, err := NewVerifier(p, stream.PublicKey("test", []byte(c.String())))
		if err != nil {
			t.Fatal(err)
		}
		if err := meanError(v, samples, want); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		wrong := *v
		wrong.mixture.members = []Member{{Order: c.theta, Weight: 1, LogN: s.logN() - .1, Couples: true}}
		wrong.ready = false
		if meanError(&wrong, samples, want) == nil {
			t.Errorf("%v: the test accepts a wrong moment", c)
		}
	}
}

// TestCouplesOfARun: at 12.8 participations they lose little, and proposals take high orders.
func TestCouplesOfARun(t *testing.T) {
	c := balancedCase{toeplitz(600, 1, 1./2, 3./8, 5./16, 35./128, 63./256, 231./1024, 429./2048, 6435./32768, 12155./65536, 46189./262144), 11, 12.8, 2.05, 3}
	c.c.Normalized = true
	l, columns := law.Balanced{Distribution: c.distribution()}, likelihood.NewColumns(c.c)
	p, err := newCouples(l, 600, 3, columns, 11, 1/(c.sigma*c.sigma), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("order 3: ln N̂ = %.4f", p.lnN)
	if p.lnN < 1.502 || p.lnN > 1.56 { // N is e^1.5023: newTuples of order 3 takes seconds
		t.Errorf("ln N̂ = %v of order 3, ln N = 1.502", p.lnN)
	}
	for _, x := range []struct {
		sigma, epsilon, most float64
		order                int
	}{{2.05, 3, 11, 5}, {8.5, .5, 40, 14}} {
		c.sigma = x.sigma
		best := searchCouples(Config{c.spec(), x.epsilon, montecarlo.P}, columns, 2, math.Inf(1), nil)
		t.Logf("σ = %v, ε = %v: M/δ at least %.4g; order %d has the least time", x.sigma, x.epsilon, best.bound/1e-5, best.member.Order)
		if best.bound > x.most*1e-5 || best.member.Order < x.order {
			t.Errorf("σ = %v, ε = %v: M = %v, order %d", x.sigma, x.epsilon, best.bound, best.member.Order)
		}
		proposal, err := NewProposal(t.Context(), Config{c.spec(), x.epsilon, montecarlo.P})
		if err != nil {
			t.Fatal(err)
		}
		if len(proposal.Members) != 1 || proposal.Members[0] != best.member || proposal.Divergence > best.bound*(1+1e-6) {
			t.Errorf("σ = %v, ε = %v: members %v, %v is proven", x.sigma, x.epsilon, proposal.Members, proposal.Divergence)
		}
	}
}

// TestCouplesThatAreTooLarge: tables that take too much memory are refused before they are made.
func TestCouplesThatAreTooLarge(t *testing.T) {
	c := toeplitz(100000, 1, .5)
	_, err := newCouples(law.NewMinSep(2000, 1e-4, true), c.Steps, 3, likelihood.NewColumns(c), 2000, 1, true)
	if !errors.Is(err, ErrTable) {
		t.Errorf("a table of 2e8 states: %v", err)
	}
}
