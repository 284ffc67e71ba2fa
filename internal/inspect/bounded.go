package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/stages"
	"minsep/internal/words"
	"minsep/sampling"
)

// tableRows is the number of rows of a table that are read at once.
const tableRows = 1 << 13

func init() { inspectors["bound"] = inspectBounded }

// inspectBounded recomputes the index of a bounded graph from the graph's rows.
func inspectBounded(ctx context.Context, dir string, _ *manifest.Index, found *Inspection) error {
	table, err := manifest.OpenBounded(ctx, dir)
	if err != nil {
		return err
	}
	bound := table.Bound
	if err := bound.Validate(); err != nil {
		return err
	}
	g, copies, pools, err := graphOf(ctx, table, true)
	if err != nil {
		return err
	}
	told, check := table.Summary, found.check
	found.all.Bounded, found.all.kept = &table.Summary, stages.KeptText(told, bound)
	perOwner := keptPerOwner(g, copies, told.Owners)
	most := perOwner.Most()
	all := sum(copies)
	check(
		"rows",
		"every row has an owner, and copies, examples and edges are as many as the index says",
		g.Examples.Len() == len(copies) && told.Kept == int64(len(copies)) && told.KeptCopies == all && told.KeptEdges == g.Edges() &&
			g.DuplicateEdges == 0,
	)
	check("given graph", "the index's counts of given, kept and dropped examples add up", countsAddUp(told))
	if !bound.Duplicates {
		check("copies", "one of every example", all == int64(len(copies)))
	}
	if table.OfPools() {
		pools.check(found, g, len(copies), bound, told)
	} else {
		check(
			"owners",
			"no owner has more than "+words.Count(bound.MaxExamplesPerOwner, "example"),
			most <= int64(bound.MaxExamplesPerOwner),
		)
	}
	check("examples per owner", "their histogram is as in the index", slices.Equal(perOwner, told.KeptPerOwner))
	if g.Examples.Len() != len(copies) {
		return nil
	}
	check(
		"owners per example",
		"their histogram is as in the index",
		slices.Equal(ownersPerExample(g), told.KeptOwners),
	)
	if table.OfPools() {
		return nil
	}
	neighborhoods := neighborhoodHistogram(g, copies)
	check("neighbourhoods", "their histogram is as in the index", slices.Equal(neighborhoods, told.Neighborhoods))
	if bound.MaxNeighborhood > 0 {
		check(
			"largest neighbourhood",
			fmt.Sprintf("at most %d", bound.MaxNeighborhood),
			neighborhoods.Most() <= int64(bound.MaxNeighborhood),
		)
	}
	return nil
}

// graphOf reads the rows of a table: the graph of the kept edges, nil without owners, and by row its
// copies and pools.
func graphOf(
	ctx context.Context,
	table *manifest.Bounded,
	owners bool,
) (g *ownergraph.Graph, copies []uint32, pools poolsOf, err error) {
	var edges ownergraph.Edges
	edges.Reset(table.ExampleType, table.OwnerType)
	pools.starts = []int{0}
	err = table.Each(ctx, owners, tableRows, func(r *ownergraph.Rows) error {
		for i := range r.Len() {
			copies = append(copies, r.Copies[i])
			pools.items = append(pools.items, r.PoolsOf(i)...)
			pools.starts = append(pools.starts, len(pools.items))
			for o, end := r.OwnersOf(i); o < end; o++ {
				edges.Examples.AppendFrom(&r.Examples, i)
				edges.Owners.AppendFrom(&r.Owners, o)
			}
		}
		return nil
	})
	if err == nil && owners {
		g, err = ownergraph.New(&edges)
	}
	return g, copies, pools, err
}

func sum(counts []uint32) (all int64) {
	for _, c := range counts {
		all += int64(c)
	}
	return all
}

// countsAddUp checks that the index's counts of the graph before bounding agree with each other.
// That graph is not in the run directory.
func countsAddUp(s ownergraph.Summary) bool {
	owners, edges := total(s.GivenPerOwner)
	examples, same := total(s.GivenOwners)
	cut := int64(0)
	if s.Coverage != nil {
		cut = s.Coverage.DroppedCut
	}
	return owners == s.Owners && cut >= 0 && edges == s.Edges && examples == s.Examples && same == s.Edges && s.DuplicateEdges >= 0 &&
		s.DroppedOwnerFull >= 0 &&
		s.DroppedNeighborhood >= 0 &&
		s.Kept+s.DroppedOwnerFull+s.DroppedNeighborhood+cut == s.Examples
}

// total returns how many things a histogram counts, and the sum of their values.
func total(h ownergraph.Histogram) (count, sum int64) {
	for _, bin := range h {
		count += bin.Count
		sum += bin.Value * bin.Count
	}
	return count, sum
}

// ownersPerExample returns the histogram of the number of owners of an example.
func ownersPerExample(g *ownergraph.Graph) ownergraph.Histogram {
	counts := make(map[int64]int64)
	for e := range g.Examples.Len() {
		counts[int64(len(g.OwnersOf.At(e)))]++
	}
	return ownergraph.NewHistogram(counts)
}

// keptPerOwner returns the histogram of the number of copies that an owner kept, over all owners of
// the graph before bounding. Owners who kept nothing count as 0.
func keptPerOwner(g *ownergraph.Graph, copies []uint32, owners int64) ownergraph.Histogram {
	counts := map[int64]int64{0: owners - int64(g.Owners.Len())}
	examples := g.ExamplesOf()
	for u := range examples.Len() {
		n := int64(0)
		for _, e := range examples.At(u) {
			n += int64(copies[e])
		}
		counts[n]++
	}
	return ownergraph.NewHistogram(counts)
}

// neighborhoodHistogram returns the histogram of neighbourhood sizes; a copy counts as an example.
func neighborhoodHistogram(g *ownergraph.Graph, copies []uint32) ownergraph.Histogram {
	counts := make(map[int64]int64)
	for e, size := range g.Neighborhoods(copies) {
		counts[size] += int64(copies[e])
	}
	return ownergraph.NewHistogram(counts)
}

// auditedTable reads a bounded table for an audit of its batches. A table of pools is read with its
// owners in any case.
func auditedTable(ctx context.Context, table *manifest.Bounded, withOwners bool) (of sampling.Audited, err error) {
	g, copies, pools, err := graphOf(ctx, table, withOwners || table.OfPools())
	if err != nil {
		return of, err
	}
	of = sampling.Audited{Examples: table.Rows, Neighborhoods: stages.PopulationOf(table.Summary).Neighborhoods}
	if sum(copies) > table.Rows {
		of.Copies = copies
	}
	if c := table.Summary.Coverage; c != nil {
		of.Pools = &sampling.PoolMembers{Number: c.Pools, Size: c.Size, Of: pools.items, Ends: pools.starts[1:]}
	}
	if g == nil {
		return of, nil
	}
	if g.Examples.Len() != len(copies) {
		return of, errors.New("the bounded table has a row without an owner")
	}
	of.Owners = new(sampling.Owners)
	for e := range copies { // the examples of the graph are in the order of the rows
		for _, owner := range g.OwnersOf.At(e) {
			of.Owners.Of = append(of.Owners.Of, int32(owner))
		}
		of.Owners.Ends = append(of.Owners.Ends, len(of.Owners.Of))
	}
	return of, nil
}
