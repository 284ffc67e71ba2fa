package sampling_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/sampling"
)

// epochDistribution is the probability of every set of steps of an EpochMinSep by walking through
// F3.8 step by step: the wait at the start, the probability of a free example that is not yet in,
// and the step at which it is free again.
func epochDistribution(n, b, epoch int) []float64 {
	distribution := make([]float64, 1<<n)
	var walk func(step, mask int, prob float64)
	walk = func(step, mask int, prob float64) {
		if step >= n || prob == 0 {
			distribution[mask] += prob
			return
		}
		eta := 1 / float64(epoch-max(step%epoch, b-1))
		walk(step+1, mask, prob*(1-eta))
		walk(max((step/epoch+1)*epoch, step+b), mask|1<<step, prob*eta)
	}
	walk(0, 0, float64(epoch-b+1)/float64(epoch))
	for r := 1; r < b; r++ {
		walk(r, 0, 1/float64(epoch))
	}
	return distribution
}

// TestEpochBatchSize: the epoch of a batch size, and what is refused.
func TestEpochBatchSize(t *testing.T) {
	of := func(batch float64, examples int64, minSep int) (sampling.EpochMinSep, error) {
		return sampling.EpochMinSep{Steps: 1000, MinSep: minSep}.WithBatchSize(batch, examples)
	}
	for _, c := range []struct {
		batch    float64
		examples int64
		epoch    int
		size     float64
	}{{200, 50000, 250, 200}, {1793, 14745600, 8224, 14745600.0 / 8224}, {400, 1000, 0, 0}, {490, 1000, 2, 500}, {0.5, 10, 20, 0.5}} {
		s, err := of(c.batch, c.examples, 2)
		if c.epoch == 0 {
			var bad *param.Error
			if !errors.As(err, &bad) || !strings.Contains(bad.Rule, "give epoch-steps 3 for that size, or 2 for 500") {
				t.Errorf("%v of %v: %v", c.batch, c.examples, err)
			}
			continue
		}
		if err != nil || s.EpochSteps != c.epoch || s.ExpectedBatchSize(c.examples) != c.size {
			t.Errorf("%v of %v: %+v, %v", c.batch, c.examples, s, err)
		}
	}
	_, err := of(300, 1000, 4)
	var infeasible *sampling.InfeasibleError
	if !errors.As(err, &infeasible) || infeasible.Largest != 250 || !strings.Contains(err.Error(), "250") {
		t.Errorf("got %v, want an InfeasibleError with 250", err)
	}
	if s, err := of(infeasible.Largest, 1000, 4); err != nil || s.EpochSteps != 4 {
		t.Errorf("the largest feasible size: %+v, %v", s, err)
	}
	must.Fail(t, "an endless epoch", "at least")(of(1e-9, 1e9, 4))
	p := sampling.Params{Scheme: "epoch-min-sep", Steps: 40, MinSep: 4, EpochSteps: 7}
	if s, err := p.Spec(sampling.Population{}); err != nil || *s.EpochMinSep != (sampling.EpochMinSep{Steps: 40, MinSep: 4, EpochSteps: 7}) {
		t.Errorf("epoch-steps: %+v, %v", s, err)
	}
}

// TestAuditOfEpochs: batches in which an example is missing from an epoch, or is in it twice, are
// found out, and missing ones are not held against batches that were cut.
func TestAuditOfEpochs(t *testing.T) {
	spec := sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 7, MinSep: 1, EpochSteps: 3}}
	cut := spec
	cut.Truncation = &sampling.Truncation{MaxBatchSize: 9}
	of := sampling.Audited{Examples: 2}
	for _, c := range []struct {
		name            string
		batches         [][]int64
		broken, whenCut bool
	}{
		{"sound", [][]int64{{0}, {1}, {}, {0, 1}, {}, {}, {0}}, false, false},
		{"sound, the cut epoch", [][]int64{{0}, {1}, {}, {0, 1}, {}, {}, {}}, false, false},
		{"missing", [][]int64{{0}, {1}, {}, {0}, {}, {}, {0}}, true, false},
		{"twice", [][]int64{{0}, {1}, {}, {0}, {0, 1}, {}, {0}}, true, true},
		{"one for another", [][]int64{{0}, {1}, {}, {0}, {0}, {}, {0}}, true, true},
	} {
		if got := slices.Contains(audit(spec, of, c.batches), "epochs"); got != c.broken {
			t.Errorf("%s: broken %v", c.name, got)
		}
		if got := slices.Contains(audit(cut, of, c.batches), "epochs"); got != c.whenCut {
			t.Errorf("%s, cut: broken %v", c.name, got)
		}
	}
	copies := sampling.Audited{Examples: 2, Copies: []uint32{2, 1}}
	if broken := audit(spec, copies, [][]int64{{0, 0}, {1}, {}, {0}, {0, 1}, {}, {}}); slices.Contains(broken, "epochs") {
		t.Errorf("copies: %v", broken)
	}
	if broken := audit(spec, copies, [][]int64{{0, 0}, {1}, {}, {0}, {1}, {}, {}}); !slices.Contains(broken, "epochs") {
		t.Errorf("a copy that is missing: %v", broken)
	}
}
