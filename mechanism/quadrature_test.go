package mechanism

import (
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
