package inspect

import (
	"fmt"
	"slices"

	"minsep/internal/ownergraph"
	"minsep/internal/words"
)

// poolsOf holds the pools of each row of a table.
type poolsOf struct {
	starts []int // starts[row] is where the pools of row begin in items; the last entry is len(items)
	items  []uint32
}

func (p *poolsOf) at(row int) []uint32 { return p.items[p.starts[row]:p.starts[row+1]] }

// check checks that no owner has two examples in one pool, as rotation requires, and compares the
// pools with the coverage in the index.
func (p *poolsOf) check(
	found *Inspection,
	g *ownergraph.Graph,
	rows int,
	bound ownergraph.Bound,
	told ownergraph.Summary,
) {
	c := told.Coverage
	sizes, distinct := make([]int64, bound.Pools), make([]int64, bound.Pools)
	perExample := map[int64]int64{0: told.Examples - int64(rows)}
	beyond := 0
	for row := range rows {
		pools := p.at(row)
		perExample[int64(len(pools))]++
		for i, pool := range pools {
			if int(pool) >= bound.Pools {
				beyond++
				continue
			}
			sizes[pool]++
			if i == 0 {
				distinct[pool]++
			}
		}
	}
	for i := 1; i < len(distinct); i++ {
		distinct[i] += distinct[i-1]
	}
	found.check(
		"pools",
		fmt.Sprintf(
			"every example is in one of %s, as the parameters and the coverage say",
			words.Count(bound.Pools, "pool"),
		),
		beyond == 0 && c.Pools == bound.Pools,
	)
	found.check(
		"sizes of pools",
		fmt.Sprintf("each has %s examples", words.Grouped(c.Size)),
		!slices.ContainsFunc(sizes, func(n int64) bool { return n != c.Size }),
	)
	found.check(
		"coverage",
		"distinct examples, and pools per example, are as in the index",
		slices.Equal(distinct, c.Distinct) && slices.Equal(ownergraph.NewHistogram(perExample), c.PerExample),
	)
	if g.Examples.Len() == rows {
		found.check("owners", "in no pool does an owner have two examples", p.twice(g) == 0)
	}
	found.Notes = append(
		found.Notes,
		fmt.Sprintf(
			"%s of %s examples: %s of %s examples are in one of them, the most used one in %d; the others: %s met an owner who was full, %s were cut",
			words.Count(
				c.Pools,
				"pool",
			),
			words.Grouped(c.Size),
			words.Grouped(told.Kept),
			words.Grouped(told.Examples),
			c.Most(),
			words.Grouped(told.DroppedOwnerFull),
			words.Grouped(c.DroppedCut),
		),
	)
}

// twice counts how often an owner has one more example in a pool that has one of theirs already.
func (p *poolsOf) twice(g *ownergraph.Graph) (broken int64) {
	var last [ownergraph.MaxPools]int // by pool: 1 + the last owner seen in it
	examples := g.ExamplesOf()
	for u := range examples.Len() {
		for _, row := range examples.At(u) {
			for _, pool := range p.at(int(row)) {
				if last[pool] == u+1 {
					broken++
				}
				last[pool] = u + 1
			}
		}
	}
	return broken
}
