package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestSolve: the value that is found reaches the target, and one that is 4 % further does not.
func TestSolve(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"fixed", "poisson", "cyclic-poisson"}, []string{"identity", "banded-toeplitz"}
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 3200, Given: 3200}}
	for _, c := range []struct {
		quantity         string
		batches          []float64
		steps            int
		epsilon          float64
		between, further float64 // a value whose noise is the target, and a factor that goes beyond it
		last             float64
		found            string
	}{
		{SolveBatchSize, []float64{50, 800}, 32, 2, 200, .96, 50, "A batch size of "},
		{SolveEpsilon, []float64{100}, 32, 10, 1.7, .96, .01, "Epsilon "},
	} {
		r := r
		r.BatchSizes, r.Steps, r.Epsilon = c.batches, c.steps, c.epsilon
		noise := func(x float64) float64 {
			of, _ := (&solver{Request: r, quantity: c.quantity}).with(x)
			return planned(t, of).Rows[0].Relative
		}
		target := noise(c.between)
		out, err := r.Solve(t.Context(), c.quantity, target)
		if err != nil {
			t.Fatal(c.quantity, err)
		}
		value := map[string]float64{SolveBatchSize: out.Request.BatchSizes[0], SolveEpsilon: out.Request.Epsilon}[c.quantity]
		if out.Rows[0].Relative > target*1.0001 || noise(value*c.further) <= target || !strings.Contains(out.Solved, c.found) {
			t.Errorf("%s %g has %g, target %g; %g has %g: %s", c.quantity, value, out.Rows[0].Relative, target, value*c.further, noise(value*c.further), out.Solved)
		}
		out, err = r.Solve(t.Context(), c.quantity, 2*noise(c.last))
		if err != nil || !strings.Contains(out.Solved, "of those that were to be tried") || !strings.Contains(out.Solved, fmt.Sprint(c.last)) {
			t.Errorf("%s: a target that the whole range reaches: %v, %v", c.quantity, out, err)
		}
		var bad *ParamError
		if _, err := r.Solve(context.Background(), c.quantity, target/1000); !errors.As(err, &bad) || bad.Param != "target" {
			t.Errorf("%s: a target that is not reached: %v", c.quantity, err)
		}
	}
	var bad *ParamError
	if _, err := r.Solve(context.Background(), "delta", .1); !errors.As(err, &bad) || bad.Param != "solve" {
		t.Errorf("a quantity that is none: %v", err)
	}
}
