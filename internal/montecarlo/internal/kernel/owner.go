package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// owner is the likelihood ratio of an owner of k examples (F4.2) in linear scale: a row of states
// for each of the b steps ahead,
//
//	V_i(S) = Σ_j weight_i(S,j) L_i^j V_{i+ahead}(S'),
//
// with the states and ways of likelihood.Owner. The weight holds the probability, the overlaps with
// the ages in S and e^{-(j²-j)s_i/2}.
//
// Range, as for pair: k examples participate at most k times in b steps, so with Λ =
// b·log2(1/q) and L ≤ 2^X values of a row differ from the value of all free by at most 2^(kΛ)
// upward and 2^(kX+2kΛ) downward, and these over b rows by 2^(kX+kΛ) and 2^(kΛ). With a look
// every b rows all stay within top + 2kX + 4kΛ.
type owner struct {
	ratio   *likelihood.Owner
	a       []float64     // log2 of L at t = 0
	weights [][][]float64 // distinct weights of a step, by state and way
	index   []int32       // of weights, a step
	limit   float64
	rows    [][]Row // step i at i mod (b+1)
	log2    Row
	unseen  int // steps until the next look
}

// maxOwnerWeights bounds the memory of weights, which are different at every step when columns are.
const maxOwnerWeights = 1 << 19

// newOwner returns nil when the ratio has no range in linear scale or too many weights.
func newOwner(o *likelihood.Owner) Recursion {
	if o.Prob == 1 {
		return nil
	}
	r := &owner{ratio: o}
	k, shrink := float64(o.Examples), -float64(o.MinSep)*math.Log1p(-o.Prob)*math.Log2E
	r.limit = (maxRange - top - 4*k*shrink) / (2 * k)
	for _, s := range o.Norms() {
		r.a = append(r.a, -s/2*math.Log2E)
		r.limit = min(r.limit, (maxExponent-100)/k-s/2*math.Log2E)
	}
	if r.limit < 20 {
		return nil
	}
	var last *float64 // of the overlaps that the latest weights are made of
	for i := range o.Steps {
		overlaps := o.Overlaps(i)
		if i < o.MinSep || &overlaps[0] != last {
			r.weights = append(r.weights, ownerWeights(o, i))
			last = &overlaps[0]
		}
		if len(r.weights)*len(o.States) > maxOwnerWeights {
			return nil
		}
		r.index = append(r.index, int32(len(r.weights)-1))
	}
	return r.Fork()
}

func ownerWeights(o *likelihood.Owner, i int) [][]float64 {
	weights := make([][]float64, len(o.States))
	for s, state := range o.States {
		overlap := 0.0
		for _, age := range state.Ages {
			if age <= i {
				overlap += o.Overlaps(i)[age]
			}
		}
		for j, way := range state.Ways {
			m := float64(j)
			weights[s] = append(weights[s], math.Exp(way.LogProb-m*overlap-(m*m-m)/2*o.Norms()[i]))
		}
	}
	return weights
}

func (r *owner) Fork() Recursion {
	fork := *r
	fork.rows = make([][]Row, r.ratio.MinSep+1)
	for i := range fork.rows {
		fork.rows[i] = make([]Row, len(r.ratio.States))
	}
	return &fork
}

func (r *owner) Limit() float64 { return r.limit }

func (r *owner) Reset() {
	for _, row := range r.rows {
		for s := range row {
			row[s] = Row{1, 1, 1, 1, 1, 1, 1, 1}
		}
	}
	r.log2 = Row{}
	r.unseen = r.ratio.MinSep
}

func (r *owner) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	powers := make([]Row, r.ratio.Examples+1)
	powers[0] = Row{1, 1, 1, 1, 1, 1, 1, 1}
	for i := len(t) - 1; i >= 0; i-- {
		step := first + i
		for l, v := range t[i] {
			jump := exp2(v + r.a[step])
			for j := 1; j < len(powers); j++ {
				powers[j][l] = powers[j-1][l] * jump
			}
		}
		r.step(step, powers)
		if r.unseen--; r.unseen == 0 {
			r.rescale(r.rows[step%len(r.rows)][0])
			r.unseen = r.ratio.MinSep
		}
	}
	return true
}

func (r *owner) step(i int, powers []Row) {
	weights := r.weights[r.index[i]]
	row := r.rows[i%len(r.rows)]
	for s := range r.ratio.States {
		var sum Row
		for j, way := range r.ratio.States[s].Ways {
			addProduct(&sum, &powers[j], &r.rows[(i+way.Ahead)%len(r.rows)][way.State], weights[s][j])
		}
		row[s] = sum
	}
}

func addProduct(sum, power, value *Row, weight float64) {
	for l := range sum {
		sum[l] += weight * power[l] * value[l]
	}
}

// rescale divides the lanes in which latest has left the range by a power of two.
func (r *owner) rescale(latest Row) {
	for l, v := range latest {
		if factor, log2 := backInRange(v); log2 != 0 {
			for _, row := range r.rows {
				for s := range row {
					row[s][l] *= factor
				}
			}
			r.log2[l] += log2
		}
	}
}

func (r *owner) LogRatio(dst *Row) {
	var sum Row
	for _, start := range r.ratio.Starts {
		weight := math.Exp(start.LogProb)
		for l, v := range r.rows[start.Row%len(r.rows)][start.State] {
			sum[l] += weight * v
		}
	}
	logs(dst, &sum, &r.log2)
}
