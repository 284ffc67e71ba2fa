package mechanism_test

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"minsep/internal/must"
	"minsep/mechanism"
)

// workloads are small workloads of every form.
func workloads(n int) []*mechanism.Workload {
	return []*mechanism.Workload{
		mechanism.Prefix(n),
		{Steps: n, Momentum: .9},
		{Steps: n, Momentum: .95, LearningRates: mechanism.RatesOf(mechanism.CooldownSchedule, n, 0)},
		{Steps: n, LearningRates: mechanism.RatesOf(mechanism.LinearDecaySchedule, n, 0)},
		{Steps: n, Forgetting: .3},
		{Steps: n, Momentum: .9, Forgetting: .4, Decay: .1},
		{Steps: n, Momentum: .6, Forgetting: .2, Decay: .3, LearningRates: mechanism.RatesOf(mechanism.WarmupCosineSchedule, n, 4)},
		{Steps: n, Forgetting: .05, LearningRates: mechanism.RatesOf(mechanism.LinearSchedule, n, 0)},
	}
}

func workloadMatrix(a *mechanism.Workload) *mat.Dense {
	m := mat.NewDense(a.Steps, a.Steps, nil)
	for j := range a.Steps {
		x := make([]float64, a.Steps)
		x[j] = 1
		m.SetCol(j, a.Multiply(x))
	}
	return m
}

func TestWorkloadViewsAgree(t *testing.T) {
	const n = 12
	for w, a := range workloads(n) {
		must.Do(t, a.Validate())
		m := workloadMatrix(a)
		if a.IsToeplitz() {
			for i, v := range a.FirstColumn(n) {
				if math.Abs(v-m.At(i, 0)) > 1e-14 {
					t.Errorf("workload %d: first column[%d] = %v, Multiply says %v", w, i, v, m.At(i, 0))
				}
			}
		}
	}
	// The recursion by matrices: with S the shift by one step and E the diagonal of learning rates,
	// v = β S v + x - κ(1-β) S s and s = S s - λ E S s + E v.
	const beta, forgetting, decay = .7, .3, .2
	eta := mechanism.RatesOf(mechanism.WarmupCosineSchedule, n, 3)
	shift, rate, one := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	for i := range n {
		rate.Set(i, i, eta[i])
		one.Set(i, i, 1)
		if i > 0 {
			shift.Set(i, i-1, 1)
		}
	}
	var velocity, kept, pulled, whole, want mat.Dense // v = velocity (x - pulled s), kept s = E v
	velocity.Scale(-beta, shift)
	velocity.Add(one, &velocity)
	velocity.Inverse(&velocity)
	pulled.Scale(forgetting*(1-beta), shift)
	kept.Mul(rate, shift)
	kept.Scale(decay, &kept)
	kept.Add(one, &kept)
	kept.Sub(&kept, shift)
	whole.Product(rate, &velocity, &pulled)
	whole.Add(&kept, &whole)
	whole.Inverse(&whole)
	want.Product(&whole, rate, &velocity)
	if got := workloadMatrix(&mechanism.Workload{Steps: n, Momentum: beta, Forgetting: forgetting, Decay: decay, LearningRates: eta}); !mat.EqualApprox(got, &want, 1e-13) {
		t.Errorf("got\n%.3v\nwant\n%.3v", mat.Formatted(got), mat.Formatted(&want))
	}
	// momentum by its definition: A[i][j] = Σ_{t=j}^{i} η_t β^{t-j}
	rates := mechanism.RatesOf(mechanism.CooldownSchedule, n, 0)
	a := workloadMatrix(&mechanism.Workload{Steps: n, Momentum: .8, LearningRates: rates})
	for i := range n {
		for j := range n {
			v, want := a.At(i, j), 0.0
			for s := j; s <= i; s++ {
				want += rates[s] * math.Pow(.8, float64(s-j))
			}
			if math.Abs(v-want) > 1e-14 {
				t.Errorf("A[%d][%d] = %v, want %v", i, j, v, want)
			}
		}
	}
}

func TestWorkloadRefuses(t *testing.T) {
	for _, a := range []*mechanism.Workload{
		{},
		{Steps: 2, Momentum: 1},
		{Steps: 2, LearningRates: []float64{1}},
		{Steps: 2, LearningRates: []float64{0, 0}},
		{Steps: 2, LearningRates: []float64{1, -1}},
		{Steps: 2, LearningRates: []float64{1, math.NaN()}},
		{Steps: 2, LearningRates: []float64{1, math.Inf(1)}},
		{Steps: 2, Forgetting: -.1},
		{Steps: 2, Forgetting: 1.1},
		{Steps: 2, Forgetting: math.NaN()},
		{Steps: 2, Forgetting: .6, LearningRates: []float64{1, 2}},
		{Steps: 2, Decay: 1.1},
	} {
		if a.Validate() == nil {
			t.Errorf("%+v is accepted", a)
		}
	}
}

func TestSchedules(t *testing.T) {
	c := mechanism.RatesOf(mechanism.CooldownSchedule, 2052, 0)
	if c[1538] != 1 || c[1539] >= 1 || math.Abs(c[2051]-.05) > 1e-15 || math.Abs(c[1539]-1+.95/513) > 1e-12 {
		t.Errorf("cooldown: %v %v %v", c[1538], c[1539], c[2051])
	}
	d := mechanism.RatesOf(mechanism.LinearDecaySchedule, 1000, 0)
	if d[249] != 1 || math.Abs(d[499]-.525) > 1e-12 || math.Abs(d[749]-.05) > 1e-12 || math.Abs(d[999]-.05) > 1e-12 {
		t.Errorf("linear decay: %v %v %v %v", d[249], d[499], d[749], d[999])
	}
}

// TestErrorAgainstDense compares every way of computing the error with A C⁻¹ by dense linear
// algebra.
func TestErrorAgainstDense(t *testing.T) {
	const n = 23
	strategies := []*mechanism.Strategy{
		mechanism.Identity(n),
		{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: []float64{1.5, .5, .1, .25}},
		{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: []float64{1, .5, .4, .3, .2, .15, .1, .1, .1, .05}},
		{Kind: mechanism.KindBISR, Steps: n, InverseToeplitz: []float64{1, -.5, -.125, -.0625}},
		{Kind: mechanism.KindBLT, Steps: n, BLT: &mechanism.BLT{Scales: []float64{.3, .2}, Decays: []float64{.9, .5}}},
	}
	columns := make([][]float64, n)
	for i := range columns {
		columns[i] = []float64{1 + .1*float64(i), .3, .2 / float64(i+1), -.1}[:min(4, n-i)]
	}
	strategies = append(strategies, &mechanism.Strategy{Kind: mechanism.KindBanded, Steps: n, Columns: columns})
	for _, plain := range strategies {
		normalized := *plain
		normalized.Normalized = true
		for _, s := range []*mechanism.Strategy{plain, &normalized} {
			must.Do(t, s.Validate())
			var inverse mat.Dense
			must.Do(t, inverse.Inverse(matrix(s)))
			for w, a := range workloads(n) {
				name := fmt.Sprintf("%s normalised=%v workload %d", s.Kind, s.Normalized, w)
				got := must.Get(s.Error(a))(t)
				var b mat.Dense
				b.Mul(workloadMatrix(a), &inverse)
				largest := 0.0
				for i := range n {
					norm := mat.Norm(b.RowView(i), 2)
					largest = max(largest, norm)
					if math.Abs(got.Variance[i]-norm*norm) > 1e-12*(1+norm*norm) {
						t.Errorf("%s: variance of row %d is %v, want %v", name, i, got.Variance[i], norm*norm)
					}
				}
				if want := mat.Norm(&b, 2) / math.Sqrt(n); math.Abs(got.RMSE-want) > 1e-12*want {
					t.Errorf("%s: RMSE %v, want %v", name, got.RMSE, want)
				}
				if math.Abs(got.MaxSE-largest) > 1e-12*largest {
					t.Errorf("%s: MaxSE %v, want %v", name, got.MaxSE, largest)
				}
			}
		}
	}
}

func TestErrorRefusesOtherSteps(t *testing.T) {
	must.Fail(t, "a workload of other steps", "must be the strategy's, 4")(mechanism.Identity(4).Error(mechanism.Prefix(5)))
}
