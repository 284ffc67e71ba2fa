package attack

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"minsep/internal/must"
)

// event is something that one observation may be, fixed before those that are counted.
type event struct {
	name  string
	side  int // of the observations: 0 with the canary
	score int // 0 to 2: a score is at most at; 3: |y_t| is small; 4: y_t and y_{t-1} have one sign
	at    float64
	step  int
	more  bool // it is true more often with the fault
}

// values are those of a score.
func (e event) values(s *Sample) []float64 {
	return [][]float64{s.LogRatios, s.squares, s.products}[e.score]
}

// count is in how many observations it is true, or, where it is rarer with the fault, false.
func (e event) count(s *Sample) (n int) {
	switch e.score {
	case 3:
		n = s.small[e.step]
	case 4:
		n = s.same[e.step]
	default:
		n = count(e.values(s), func(v float64) bool { return v <= e.at })
	}
	if !e.more {
		return len(s.LogRatios) - n
	}
	return n
}

// surest is the event by which an audit of given sizes, of each side, finds a fault the most surely
// by what a pilot's samples and the mechanism's show; where several are as sure, the one with the
// largest difference.
func surest(pilot, reference [2]*Sample, of, references int) (best event) {
	power, worst := -1.0, 0.0
	for side := range pilot {
		o, r := pilot[side], reference[side]
		look := func(e event) {
			for _, e.more = range []bool{false, true} {
				x, y := e.count(o), e.count(r)
				d := compareCounts("", "", x, len(o.LogRatios), y, len(r.LogRatios))
				if float64(d.Count) <= d.Expected || d.LogP > -20 {
					continue
				}
				low, top := lowestRate(x, len(o.LogRatios), unsure), 1-lowestRate(len(r.LogRatios)-y, len(r.LogRatios), unsure)
				sure := e.power(of, references, len(o.small), low, top)
				if sure > power+1e-4 || sure > power-1e-4 && d.LogP < worst {
					power, worst, best = sure, d.LogP, e
				}
			}
		}
		for score, name := range []string{"log likelihood ratio", "sum of squares", "sum of products"} {
			e := event{name: name, side: side, score: score}
			observed, mechanism := slices.Sorted(slices.Values(e.values(o))), slices.Sorted(slices.Values(e.values(r)))
			for q := 1; q < cuts; q++ {
				for near := -4; near <= 4; near++ { // about the places at which compare cuts the two samples
					share := math.Pow(math.Sin(math.Pi/2*float64(q)/cuts), 2) * (1 + float64(near)/200)
					e.at = place(observed, mechanism, share*float64(of+references), float64(of)/float64(len(observed)), float64(references)/float64(len(mechanism)))
					look(e)
				}
			}
		}
		for t := range o.small {
			look(event{name: "size of a step", side: side, score: 3, step: t})
			look(event{name: "signs of two steps", side: side, score: 4, step: t})
		}
	}
	return best
}

// place is where so many values are below of two sorted samples, each value of which stands for
// some.
func place(a, b []float64, want, eachA, eachB float64) float64 {
	low, high := min(a[0], b[0]), max(a[len(a)-1], b[len(b)-1])
	for range 60 {
		mid := (low + high) / 2
		i, _ := slices.BinarySearch(a, mid)
		j, _ := slices.BinarySearch(b, mid)
		if eachA*float64(i)+eachB*float64(j) < want {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// tail is Pr[Binom(n, p) ≥ k].
func tail(n, k int, p float64) float64 {
	if k <= 0 {
		return 1
	}
	if k > n {
		return 0
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}

// leastFound is the number of observations from which compare finds a difference at one place: of
// observations that the event is true of, where it is true of so many of both samples together.
func leastFound(all, of, references, comparisons int) int {
	low, high := int(float64(all)*float64(of)/float64(of+references)), min(all, of)+1
	for high-low > 1 {
		mid := (low + high) / 2
		d := compareCounts("", "", mid, of, all-mid, references)
		if d.LogP+math.Log(2*float64(comparisons)) < math.Log(FalseAlarm/2) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// power is a lower bound of the probability that an audit of given sizes finds a difference, where
// faulty bounds from below the probability that the event is true of an observation, and rate from
// above that of one of the mechanism's.
//
// A step's event is one of those that are compared: for each d, the audit finds a difference if the
// event is true of at most d of the reference and of at least the k that are then needed. A score
// is cut where the two samples together have a number E of values, which is fixed: of the E
// smallest at least k are observations if at least k observations and at most E-k references lie
// below any one place, since the E smallest either hold all those observations, or at least E-(E-k)
// values that are no references. So one place, fixed before, serves all cuts. What is at most
// something has the same proof as what is above it, with the E greatest.
func (e event) power(of, references, steps int, faulty, rate float64) (best float64) {
	comparisons := 3*(cuts-1) + 2*steps
	try := func(k, most int) {
		if most >= 0 && k <= of {
			best = max(best, tail(of, k, faulty)*(1-tail(references, most+1, rate)))
		}
	}
	if e.score >= 3 {
		for _, over := range []float64{3, 3.5, 4, 4.5, 5} { // deviations of the reference that are allowed for
			most := int(float64(references)*rate + over*math.Sqrt(float64(references)*rate*(1-rate)))
			k := most * of / references
			for k <= of && leastFound(k+most, of, references, comparisons) > k {
				k++
			}
			try(k, most)
		}
		return best
	}
	for q := 1; q < cuts; q++ {
		end := int(math.Pow(math.Sin(math.Pi/2*float64(q)/cuts), 2) * float64(of+references))
		if !e.more {
			end = of + references - end
		}
		k := leastFound(end, of, references, comparisons)
		try(k, end-k)
	}
	return best
}

// unsure is the probability, at most, that one of the rates that are measured for a bound of power
// is not within its confidence bound.
const unsure = 1e-4

// observed returns samples of some runs, or, by run, how often an event is true.
func (c faultyChain) observed(t *testing.T, seed string, runs int, e *event) (samples [2]*Sample, counts []int) {
	counts = make([]int, runs)
	workers := runtime.GOMAXPROCS(0)
	parts := make([][2]Sample, workers)
	var group sync.WaitGroup
	for w := range workers {
		attack := must.Get(NewAttack(c.mechanism))(t)
		group.Go(func() {
			rows := c.rows(t, seeded(seed))
			for run := w; run < runs; run += workers {
				var of [2]Sample
				for canary, row := range rows(run) {
					attack.Add(&of[(canary+run)%2], row)
				}
				if e != nil {
					counts[run] = e.count(&of[e.side])
					continue
				}
				for side := range of {
					parts[w][side].Merge(&of[side])
				}
			}
		})
	}
	group.Wait()
	for side := range samples {
		samples[side] = new(Sample)
		for w := range parts {
			samples[side].Merge(&parts[w][side])
		}
	}
	return samples, counts
}

// simulated returns samples of the mechanism itself.
func (c faultyChain) simulated(t *testing.T, n int, seed uint64) (samples [2]*Sample) {
	attack := must.Get(NewAttack(c.mechanism))(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	for side := range samples {
		samples[side] = new(Sample)
		for range n {
			attack.simulate(samples[side], side == 0, rng)
		}
	}
	return samples
}

// TestPower: an audit of the size of TestFaults misses a fault in fewer than one of a thousand. For
// each fault a pilot chooses an event, fresh observations bound how often it is true with the fault
// and with the mechanism, and exact tails of the binomial distribution bound how often compare
// finds it then.
func TestPower(t *testing.T) {
	if !long() {
		t.Skip("takes minutes: make attack")
	}
	for _, c := range faultyChains() {
		t.Run(c.name, func(t *testing.T) {
			const more = 4                              // as many observations to measure the rates
			of := (c.runs - c.runs/10) * c.canaries / 2 // of each side; a tenth of the runs is for adapting
			references := max(leastReference, min(mostReference, of))
			pilot, _ := c.observed(t, "pilot of "+c.name, 2*c.runs, nil)
			e := surest(pilot, c.simulated(t, 2*references, 1), of, references)
			fresh := more * references
			rate := 1 - lowestRate(fresh-e.count(c.simulated(t, fresh, 2)[e.side]), fresh, unsure)
			_, counts := c.observed(t, "measured of "+c.name, more*c.runs, &e)
			hits := 0
			for _, n := range counts {
				hits += n
			}
			all := len(counts) * c.canaries / 2
			power := e.power(of, references, c.mechanism.Run.Strategy.Steps, lowestRate(hits, all, unsure), rate)
			t.Logf("%d observations; %s: %.4f with the fault, %.4f without (at most); power at least %.6f", 2*of, e.name, float64(hits)/float64(all), rate, power)
			if power < 0.999 {
				t.Errorf("power at least %v", power)
			}
		})
	}
}

// TestPowerBound: the bounds of power stay below what is seen where both samples are drawn, and
// come near it.
func TestPowerBound(t *testing.T) {
	const of, references, steps, times = 400, 1000, 3, 200
	rng := rand.New(rand.NewPCG(3, 3))
	for _, e := range []event{{score: 0, at: 0, more: true}, {score: 0, at: 0}, {score: 3, more: true}, {score: 3}} {
		for _, shift := range []float64{0.5, 0.8, 1.2} {
			draw := func(n int, shift float64) *Sample {
				s := &Sample{small: make([]int, steps), same: make([]int, steps)}
				for range n {
					v := rng.NormFloat64() + shift
					s.LogRatios = append(s.LogRatios, v)
					if v > 0 == (e.score == 3) {
						s.small[0]++
					}
				}
				s.squares, s.products = make([]float64, n), make([]float64, n)
				return s
			}
			sign := shift
			if e.more == (e.score == 0) {
				sign = -shift
			}
			found := 0
			for range times {
				for _, d := range compare(draw(of, sign), draw(references, 0)) {
					if d.Score == "log likelihood ratio" && e.score == 0 || d.Score == "step 0" && e.score == 3 {
						found++
					}
				}
			}
			p := 0.5 * math.Erfc(-shift/math.Sqrt2)
			exact := e.power(of, references, steps, p, 0.5)
			seen := float64(found) / times
			if top := 1 - lowestRate(times-found, times, 1e-6); exact > top {
				t.Errorf("%+v, shift %v: power %v, and %v was seen", e, shift, exact, seen)
			}
			if shift == 1.2 && exact < 0.95 || shift == 0.8 && exact < 0.2 {
				t.Errorf("%+v: power %v at a shift of %v, and %v was seen", e, exact, shift, seen)
			}
		}
	}
}
