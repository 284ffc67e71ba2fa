package sampling

import (
	"fmt"
	"slices"

	"minsep/internal/words"
)

// groupAudit checks the examples that owners bring to batches, and determines the owners that take
// part.
type groupAudit struct {
	spec  Spec
	of    Audited
	sizes []int // by owner: number of its examples
	// owners is the result of owned; its memory is reused.
	owners []int64

	// Numbers of violations.
	outOfRange, disorder, mixed, wrongDraw, wrongSize int64
}

func newGroupAudit(spec Spec, of Audited) *groupAudit {
	g := &groupAudit{spec: spec, of: of}
	for _, u := range of.Owners.Of {
		for int(u) >= len(g.sizes) {
			g.sizes = append(g.sizes, 0)
		}
		g.sizes[u]++
	}
	return g
}

// StepOwners audits the next step of batches of owners: owner i of the batch has
// rows[ends[i-1]:ends[i]], the first one rows[:ends[0]].
func (a *Audit) StepOwners(rows []int64, ends []int) { a.Step(a.groups.owned(rows, ends)) }

// owned returns the numbers of the owners that take part, ascending, and then a [PadRow] for each
// group that is padding.
func (g *groupAudit) owned(rows []int64, ends []int) []int64 {
	g.owners = g.owners[:0]
	padding, start, last := 0, 0, int64(-1)
	for _, end := range ends {
		group := rows[start:end]
		start = end
		entries := len(group)
		for entries > 0 && group[entries-1] == PadRow {
			entries--
		}
		if t := g.spec.Truncation; t != nil && t.Pad && len(group) != g.spec.Owners.ExamplesPerOwner || entries < len(group) && (t == nil || !t.Pad) {
			g.wrongSize++
		}
		switch {
		case entries == 0:
			padding++
			continue
		case padding > 0 || group[0] <= last:
			g.disorder++
		}
		last = group[0]
		if u, ok := g.owner(group[:entries]); ok {
			g.owners = append(g.owners, u)
		}
	}
	if start != len(rows) {
		g.wrongSize++
	}
	slices.Sort(g.owners)
	for range padding {
		g.owners = append(g.owners, PadRow)
	}
	return g.owners
}

// owner returns the owner of a group of rows, and checks the rows. ok is false if no row is in
// range.
func (g *groupAudit) owner(group []int64) (owner int64, ok bool) {
	owner = -1
	for i, row := range group {
		if row < 0 || row >= g.of.Examples {
			g.outOfRange++
			continue
		}
		if i > 0 && group[i-1] >= row {
			g.disorder++
		}
		switch u := int64(g.of.Owners.of(int32(row))[0]); {
		case owner < 0:
			owner = u
		case u != owner:
			g.mixed++
		}
	}
	if owner < 0 {
		return 0, false
	}
	if len(group) != min(g.sizes[owner], g.spec.Owners.ExamplesPerOwner) {
		g.wrongDraw++
	}
	return owner, true
}

// checks returns the checks of the examples that owners bring.
func (g *groupAudit) checks() []Check {
	drawn := g.spec.Owners.ExamplesPerOwner
	return []Check{
		count("rows", fmt.Sprintf("every row is in [0, %d)", g.of.Examples), g.outOfRange),
		count("order", "rows ascend within each owner's, and owners by their first rows", g.disorder),
		count("owners' examples", "an owner brings only its own examples", g.mixed),
		count(
			"examples per owner",
			fmt.Sprintf("an owner brings %s, or all where it has fewer", words.Count(drawn, "example")),
			g.wrongDraw,
		),
	}
}
