package ownergraph

import "slices"

// missing are texts that programs write in place of an owner who is not known.
var missing = []string{"<NA>", "N/A", "NA", "NULL", "NaN", "None", "UNKNOWN", "Unknown", "\\N", "anonymous", "n/a", "nan", "nil", "none", "null", "undefined", "unknown"}

// MissingOwners returns the owner ids of at least two examples that are words for an owner who is
// not known, ascending: their examples are taken for one owner's.
func (g *Graph) MissingOwners() (ids []string) {
	if g.Owners.Type != String {
		return nil
	}
	for i, n := range g.examplesOf() {
		if n < 2 {
			continue
		}
		if _, found := slices.BinarySearch(missing, string(g.Owners.Bytes(i))); found {
			ids = append(ids, g.Owners.Format(i))
		}
	}
	return ids
}

// swappedFrom is how many owners an example has at least in a graph whose columns look swapped.
const swappedFrom = 100

// LooksSwapped says whether a graph may have its examples and owners in each other's place, and how
// many owners an example has at most: there are more owners than examples, few with more than one,
// and an example of very many.
func (g *Graph) LooksSwapped() (most int, swapped bool) {
	for i := range g.OwnersOf.Len() {
		most = max(most, len(g.OwnersOf.At(i)))
	}
	several := 0
	for _, n := range g.examplesOf() {
		if n > 1 {
			several++
		}
	}
	return most, most >= swappedFrom && g.Owners.Len() > g.Examples.Len() && several <= g.Owners.Len()/2
}

// examplesOf is the number of examples of each owner.
func (g *Graph) examplesOf() []uint32 {
	number := make([]uint32, g.Owners.Len())
	for _, owner := range g.OwnersOf.Items {
		number[owner]++
	}
	return number
}
