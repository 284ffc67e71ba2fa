package mechanism_test

import (
	"math"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

// TestToeplitzErrorGradient compares every way of computing the error of a Toeplitz strategy and
// its gradient with [mechanism.Strategy.Error] and with differences of it, across the borders of
// blocks of steps.
func TestToeplitzErrorGradient(t *testing.T) {
	for _, n := range []int{1, 2, 40, 530} {
		training := &mechanism.Workload{Steps: n, Momentum: .8, Forgetting: .05, Decay: .02, LearningRates: mechanism.RatesOf(mechanism.WarmupCosineSchedule, n, n/5)}
		for w, a := range []*mechanism.Workload{training, {Steps: n, LearningRates: mechanism.RatesOf(mechanism.LinearSchedule, n, 0)}, {Steps: n, Momentum: .8, Forgetting: .05}} {
			for _, bands := range []int{1, 2, 7, 300} {
				if bands > n {
					continue
				}
				p := mechanism.Problem{Workload: a}
				logError := must.Get(mechanism.ToeplitzError(p, bands))(t)
				c := make([]float64, bands)
				for j := range c {
					c[j] = 1.5 / math.Pow(float64(j+1), .8) * (1 + .1*math.Sin(float64(7*j)))
				}
				want := func() float64 {
					e := must.Get((&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: c}).Error(a))(t)
					return 2 * math.Log(e.RMSE)
				}
				grad := make([]float64, bands)
				for again := range 2 { // nothing of an evaluation is left for the next
					clear(grad)
					if got := logError(c, grad); math.Abs(got-want()) > 1e-11 {
						t.Errorf("n %d, workload %d, bands %d, evaluation %d: ln error %v, want %v", n, w, bands, again, got, want())
					}
				}
				for j := range c {
					if j > 3 && j != bands/2 && j != bands-1 {
						continue
					}
					const step = 1e-5
					old := c[j]
					c[j] = old + step
					high := want()
					c[j] = old - step
					low := want()
					c[j] = old
					if slope := (high - low) / (2 * step); math.Abs(grad[j]-slope) > 1e-7*(1+math.Abs(slope)) {
						t.Errorf("n %d, workload %d, bands %d: derivative %d is %v, want %v", n, w, bands, j, grad[j], slope)
					}
				}
			}
		}
	}
}
