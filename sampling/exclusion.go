package sampling

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Exclude is Algorithm 3 of arXiv 2602.09338, step by step. coins[e] holds the steps in which
// example e is sampled, in ascending order from 1-MinSep on; owners[e] holds its owners, numbered
// from 0. Exclude returns the steps in which each example takes part: its coins from step 0 on
// where none of its owners had a sampled example in the MinSep-1 steps before. It is the reference
// for the transform.
func (s MultiOwner) Exclude(coins, owners [][]int32) [][]int32 {
	return s.exclude(coins, owners, func(bool) bool { return true })
}

// ExcludeRealized is Algorithm 4 of arXiv 2602.09338. It excludes an example when one that shares
// an owner with it *took part* in the last MinSep-1 steps, sampled or not. It is here for
// comparison only: its accounting is a conjecture, a star of examples refutes it, and minsep has
// none for it.
func (s MultiOwner) ExcludeRealized(coins, owners [][]int32) [][]int32 {
	return s.exclude(coins, owners, func(tookPart bool) bool { return tookPart })
}

// exclude walks through the steps and keeps the last blocking step of each owner.
func (s MultiOwner) exclude(coins, owners [][]int32, blocks func(tookPart bool) bool) [][]int32 {
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
			if !blocks(took[i]) {
				continue
			}
			for _, u := range owners[e] {
				last[u] = int(t)
			}
		}
	}
	return out
}

// MinSepViolation returns the index of the first step that is less than minSep after the one before
// it, or -1. steps ascend; they belong to one example, or to all examples of one owner. sameStep
// allows equal steps, which are several examples of one owner in one batch.
func MinSepViolation(steps []int32, minSep int, sameStep bool) int {
	for i := 1; i < len(steps); i++ {
		if gap := int(steps[i]) - int(steps[i-1]); gap < minSep && !(sameStep && gap == 0) {
			return i
		}
	}
	return -1
}
