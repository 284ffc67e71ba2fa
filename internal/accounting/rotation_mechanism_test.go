package accounting

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/mechanism"
	"minsep/sampling"
)

// rotated is a training of three steps in periods of two, the second of them cut: a graph of few
// examples, its pools, and the gradient of each example, a number that the adversary chooses.
type rotated struct {
	owners    [][]uint32 // of each example
	pools     [2][]int   // examples of each period
	gradients []float64
	sigma     float64
	strategy  *mechanism.Strategy
}

const rotatedSteps, rotatedPeriod = 3, 2

// outputs are the means of the output, and their probabilities, with the examples of an owner or
// with their gradients set to zero. The coins of all are secret, or those of others are known: then
// their part is known, and is left out.
func (r rotated) outputs(owner uint32, zeroed, known bool) (means [][rotatedSteps]float64, probs []float64) {
	means, probs = [][rotatedSteps]float64{{}}, []float64{1}
	for e, pool := range r.pools {
		for _, example := range pool {
			owned := false
			for _, u := range r.owners[example] {
				owned = owned || u == owner
			}
			if owned && zeroed || !owned && known {
				continue
			}
			var next [][rotatedSteps]float64
			var nextProbs []float64
			for v := range rotatedPeriod {
				step := e*rotatedPeriod + v
				for i, mean := range means {
					if step < rotatedSteps {
						for t, c := range r.strategy.Column(nil, step) {
							mean[step+t] += c * r.gradients[example]
						}
					}
					next, nextProbs = append(next, mean), append(nextProbs, probs[i]/rotatedPeriod)
				}
			}
			means, probs = next, nextProbs
		}
	}
	return means, probs
}

// rotatedGrid is where densities are summed: -reach … reach in each coordinate.
const rotatedPoints, rotatedReach = 44, 7.

// density of a mixture on the grid, in units of σ.
func (r rotated) density(means [][rotatedSteps]float64, probs []float64) []float64 {
	at := func(k int) float64 { return rotatedReach * (2*float64(k)/(rotatedPoints-1) - 1) }
	out := make([]float64, rotatedPoints*rotatedPoints*rotatedPoints)
	for m, mean := range means {
		var one [rotatedSteps][rotatedPoints]float64
		for t := range one {
			for k := range one[t] {
				d := at(k) - mean[t]/r.sigma
				one[t][k] = math.Exp(-d * d / 2)
			}
		}
		i := 0
		for _, x := range one[0] {
			for _, y := range one[1] {
				xy := probs[m] * x * y
				for _, z := range one[2] {
					out[i] += xy * z
					i++
				}
			}
		}
	}
	return out
}

// excess is Σ (p - γq)_+ over Σ q.
func excess(p, q []float64, gamma float64) float64 {
	sum, total := 0.0, 0.0
	for i := range p {
		sum += max(0, p[i]-gamma*q[i])
		total += q[i]
	}
	return sum / total
}

// delta is the δ of an owner at e^ε, in both directions.
func (r rotated) delta(owner uint32, known bool, gamma float64) float64 {
	p, q := r.density(r.outputs(owner, false, known)), r.density(r.outputs(owner, true, known))
	return max(excess(p, q, gamma), excess(q, p, gamma))
}

// claimed is δ by the likelihood ratio that certificates are made of, summed on the same grid.
func (r rotated) claimed(t *testing.T, gamma float64) float64 {
	t.Helper()
	run := Run{Sampler: sampling.Spec{Rotation: &sampling.Rotation{Steps: rotatedSteps, EpochSteps: rotatedPeriod}}, Strategy: r.strategy, MaxExamplesPerOwner: 1}
	ratio := must.Get(run.Loss(r.sigma).LogRatio())(t)
	q := r.density([][rotatedSteps]float64{{}}, []float64{1})
	p, y := make([]float64, len(q)), make([]float64, rotatedSteps)
	for i := range q {
		for t, k := range [...]int{i / rotatedPoints / rotatedPoints, i / rotatedPoints % rotatedPoints, i % rotatedPoints} {
			y[t] = r.sigma * rotatedReach * (2*float64(k)/(rotatedPoints-1) - 1)
		}
		p[i] = q[i] * math.Exp(ratio(y))
	}
	return max(excess(p, q, gamma), excess(q, p, gamma))
}

// fill makes the pools of the graph as the product does.
func (r *rotated) fill(t *testing.T, owners int) {
	t.Helper()
	lists := ownergraph.Lists{Starts: []uint32{0}}
	for _, of := range r.owners {
		lists.Items = append(lists.Items, of...)
		lists.Starts = append(lists.Starts, uint32(len(lists.Items)))
	}
	pools := must.Get(ownergraph.FillPools(&lists, owners, len(r.pools)))(t)
	for example := range r.owners {
		for _, pool := range pools.Of.At(example) {
			r.pools[pool] = append(r.pools[pool], example)
		}
	}
}

// TestRotationOfWholeMechanisms sums the outputs of whole trainings: the star, and graphs of up to
// five owners. The true δ of every owner is at most that of the likelihood ratio, whatever the
// gradients, whether the coins of others are known or not. It is above it where a pool has two
// examples of an owner.
func TestRotationOfWholeMechanisms(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 1))
	graphs := []rotated{{owners: [][]uint32{{0}, {0, 1}, {0, 2}, {0, 3}, {1}, {2}, {3}}}} // the star
	for range 6 {
		var r rotated
		owners := 2 + rng.IntN(4)
		for range 3 + rng.IntN(4) {
			var of []uint32
			for u := range uint32(owners) {
				if rng.IntN(3) == 0 {
					of = append(of, u)
				}
			}
			if of == nil {
				of = []uint32{rng.Uint32N(uint32(owners))}
			}
			r.owners = append(r.owners, of)
		}
		graphs = append(graphs, r)
	}
	tight := 0
	for _, r := range graphs {
		r.sigma = 0.8 + 0.4*rng.Float64()
		r.strategy = &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: rotatedSteps, Toeplitz: []float64{.8, .2 + .5*rng.Float64()}}
		for range r.owners {
			r.gradients = append(r.gradients, []float64{1, 1, -1, .5}[rng.IntN(4)])
		}
		r.fill(t, 5)
		gamma := math.Exp(0.5)
		claim := r.claimed(t, gamma)
		for owner := range uint32(5) {
			for _, known := range []bool{false, true} {
				delta := r.delta(owner, known, gamma)
				if delta > claim*(1+1e-9) {
					t.Errorf("%+v, owner %d, others known %v: δ = %.8g, claimed %.8g", r, owner, known, delta, claim)
				}
				if delta > claim*(1-1e-9) {
					tight++
				}
			}
		}
	}
	if tight < 5 {
		t.Errorf("only %d owners have the δ that is claimed: the graphs are too easy", tight)
	}

	// Two examples of one owner in a pool, and examples that are in both pools.
	faulty := rotated{owners: [][]uint32{{0}, {0}}, gradients: []float64{1, 1}, sigma: 1, strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: rotatedSteps, Toeplitz: []float64{.8, .5}}}
	faulty.pools = [2][]int{{0}, {1}}
	gamma := math.Exp(0.5)
	claim := faulty.claimed(t, gamma)
	if delta := faulty.delta(0, false, gamma); math.Abs(delta/claim-1) > 1e-9 {
		t.Errorf("an example in each pool: δ = %v, claimed %v", delta, claim)
	}
	faulty.pools = [2][]int{{0, 1}, {1}}
	if delta := faulty.delta(0, false, gamma); delta < 1.3*claim {
		t.Errorf("two examples of an owner in a pool: δ = %v is not seen above %v", delta, claim)
	}
}

// secretly is a training in which the pool of the second period has five examples of other owners,
// too, where a secret coin says so: the owner's place in the first period, or a coin of its own.
func (r rotated) secretly(zeroed, byPlace bool) (means [][rotatedSteps]float64, probs []float64) {
	const others = 5
	gradient := 1.
	if zeroed {
		gradient = 0
	}
	binomial := [others + 1]float64{1, 5, 10, 10, 5, 1}
	for coin := range 2 {
		for place := range rotatedPeriod {
			for later := range rotatedPeriod { // its place in the second period, of which only the first is in the run
				for took, ways := range binomial {
					prob := ways / math.Exp2(others)
					switch there := byPlace && place == 0 || !byPlace && coin == 0; {
					case !there && took > 0:
						continue
					case !there:
						prob = 1
					}
					var mean [rotatedSteps]float64
					for t, c := range r.strategy.Column(nil, place) {
						mean[place+t] += c * gradient
					}
					sum := -float64(took)
					if later == 0 {
						sum += gradient
					}
					for t, c := range r.strategy.Column(nil, rotatedPeriod) {
						mean[rotatedPeriod+t] += c * sum
					}
					means, probs = append(means, mean), append(probs, prob/2/rotatedPeriod/rotatedPeriod)
				}
			}
		}
	}
	return means, probs
}

// TestRotationOfSecretPools: pools that depend on who took part before break the claim, as those of
// Algorithm 3 do. Pools by coins that nothing else knows do not, even where the coins are secret.
func TestRotationOfSecretPools(t *testing.T) {
	r := rotated{owners: [][]uint32{{0}}, gradients: []float64{1}, pools: [2][]int{{0}, {0}}, sigma: 1.2,
		strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: rotatedSteps, Toeplitz: []float64{.8, .2}}}
	gamma := math.Exp(2)
	claim := r.claimed(t, gamma)
	for _, byPlace := range []bool{false, true} {
		p, q := r.density(r.secretly(false, byPlace)), r.density(r.secretly(true, byPlace))
		delta := max(excess(p, q, gamma), excess(q, p, gamma))
		if byPlace && delta < 1.5*claim {
			t.Errorf("pools by who took part: δ = %v is not seen above %v", delta, claim)
		}
		if !byPlace && delta > claim*(1+1e-9) {
			t.Errorf("pools by a coin of their own: δ = %v, claimed %v", delta, claim)
		}
	}
}
