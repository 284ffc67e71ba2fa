package sampling

import (
	"cmp"
	"math"
	"slices"
)

// Exclude is Algorithm 3 of arXiv 2602.09338, step by step. coins[e] holds the steps in which
// example e is sampled, in ascending order from 1-MinSep on; owners[e] holds its owners, numbered
// from 0. Exclude returns the steps in which each example takes part: its coins from step 0 on
// where none of its owners had a sampled example in the MinSep-1 steps before. It is the reference
// for the transform.
func (s MultiOwner) Exclude(coins, owners [][]int32) [][]int32 {
	type event struct{ step, example int32 }
	var events []event
	most := int32(-1)
	for e, steps := range coins {
		for _, t := range steps {
			events = append(events, event{t, int32(e)})
		}
		for _, u := range owners[e] {
			most = max(most, u)
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.example, b.example))
	})
	last := make([]int, most+1)
	for u := range last {
		last[u] = math.MinInt
	}
	out := make([][]int32, len(coins))
	took := make([]bool, len(events))
	for i := 0; i < len(events); {
		end := i
		for ; end < len(events) && events[end].step == events[i].step; end++ {
			e, t := events[end].example, int(events[end].step)
			took[end] = !slices.ContainsFunc(owners[e], func(u int32) bool { return last[u] > t-s.MinSep })
		}
		for ; i < end; i++ {
			e, t := events[i].example, events[i].step
			if took[i] && t >= 0 {
				out[e] = append(out[e], t)
			}
			for _, u := range owners[e] {
				last[u] = int(t)
			}
		}
	}
	return out
}
