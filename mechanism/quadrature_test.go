package mechanism

import (
	"context"
	"errors"
	"math"
	"testing"
)

func TestSqrtNodes(t *testing.T) {
	for _, c := range []struct{ low, high float64 }{{1, 1.01}, {1, 10}, {.3, 4e6}, {1e-3, 1e9}} {
		nodes := sqrtNodes(c.low, c.high, 1e-11)
		worst := 0.0
		for i := range 101 {
			x := c.low * math.Pow(c.high/c.low, float64(i)/100)
			sum := 0.0
			for _, q := range nodes {
				sum += q.weight * x / (x + q.shift)
			}
			worst = max(worst, math.Abs(sum/math.Sqrt(x)-1))
		}
		t.Logf("[%g, %g]: %d nodes, error %.2g", c.low, c.high, len(nodes), worst)
		if worst > 1e-10 {
			t.Errorf("[%g, %g]: error %.2g with %d nodes", c.low, c.high, worst, len(nodes))
		}
	}
}

// valley is Rosenbrock's function.
func valley(x, grad []float64) float64 {
	a, b := 1-x[0], x[1]-x[0]*x[0]
	if grad != nil {
		grad[0], grad[1] = -2*a-400*x[0]*b, 200*b
	}
	return a*a + 100*b*b
}

// TestMinimizeEnds: the function is not evaluated once the context has ended.
func TestMinimizeEnds(t *testing.T) {
	for _, last := range []int{1, 7} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		evaluations := 0
		_, err := minimize(ctx, []float64{-1.2, 1}, 200, func(x, grad []float64) float64 {
			if evaluations++; evaluations == last {
				cancel()
			}
			return valley(x, grad)
		})
		if evaluations > last+1 || !errors.Is(err, context.Canceled) {
			t.Errorf("the context ended at evaluation %d of %d: %v", last, evaluations, err)
		}
	}
}

// TestNotConverged stops an optimisation early: it must say so.
func TestNotConverged(t *testing.T) {
	if _, err := minimize(t.Context(), []float64{-1.2, 1}, 3, valley); !errors.Is(err, ErrNotConverged) {
		t.Errorf("after 3 iterations: %v", err)
	}
	x := []float64{-1.2, 1}
	least, err := minimize(t.Context(), x, 200, valley)
	if err != nil || math.Abs(x[0]-1) > 1e-6 || math.Abs(x[1]-1) > 1e-6 || math.Abs(least-1) > 1e-9 {
		t.Errorf("exp of %v, %v at %v, want the minimum 0 at 1, 1", least, err, x)
	}
}
