package tilt

import (
	"fmt"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// epochPatterns lists every pattern of epoch min-sep by its places: in each epoch from the first
// free place on with the constant hazard 1/(T-b+1) up to place b-2, and uniformly beyond; the place
// before the run is uniform.
func epochPatterns(steps, sep, epoch int) (list []pattern) {
	var walk func(begins, last int, hits []int, prob float64)
	walk = func(begins, last int, hits []int, prob float64) {
		if begins >= steps {
			for k := range list {
				if equal(list[k].hits, hits) {
					list[k].prob += prob
					return
				}
			}
			list = append(list, pattern{append([]int(nil), hits...), prob})
			return
		}
		tail, left := float64(epoch-sep+1), 1.0
		for v := max(0, last+sep-epoch); v < epoch; v++ {
			p := left / tail
			if v < sep-1 {
				left -= p
			}
			if p <= 0 {
				continue
			}
			next := hits
			if begins+v < steps {
				next = append(append([]int(nil), hits...), begins+v)
			}
			walk(begins+epoch, v, next, prob*p)
		}
	}
	for last := range epoch {
		walk(0, last, nil, 1/float64(epoch))
	}
	return list
}

// epochCase is a run in epochs.
type epochCase struct {
	c          *mechanism.Strategy
	sep, epoch int
	sigma      float64
}

func (c epochCase) spec() montecarlo.Spec {
	return specOf(sampling.EpochMinSep{Steps: c.c.Steps, MinSep: c.sep, EpochSteps: c.epoch}, c.c, c.sigma)
}

// tuplesFollow tests how often each tuple is drawn against the weights of all.
func tuplesFollow(weights map[string]float64, total float64, name string, draw func([]kernel.Hit, *kernel.Uniforms) []kernel.Hit, draws int) error {
	seen := map[string]int{}
	u := &kernel.Uniforms{Bulk: stream.NewBulk(stream.PublicKey("test", []byte(name)))}
	var hits []kernel.Hit
	for i := range draws {
		u.Reset(uint64(i), 0)
		hits = draw(hits, u)
		key := hitsKey(hits)
		if weights[key] == 0 {
			return fmt.Errorf("drew an impossible tuple %s", key)
		}
		seen[key]++
	}
	observed, prob := []int{0}, []float64{0}
	for key, weight := range weights {
		if q := weight / total; q > 0.004 {
			observed, prob = append(observed, seen[key]), append(prob, q)
		} else { // the rare tuples together
			observed[0] += seen[key]
			prob[0] += q
		}
	}
	return stattest.Distribution(observed, prob)
}
