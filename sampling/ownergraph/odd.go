package ownergraph

import "slices"

// missing are texts that programs write for an unknown owner, in the order of their bytes: they are
// searched by halving.
var missing = []string{"<NA>", "N/A", "NA", "NULL", "NaN", "None", "UNKNOWN", "Unknown", "\\N", "anonymous", "n/a", "nan", "nil", "none", "null", "undefined", "unknown"}

// MissingOwners returns the owner ids that stand for an unknown owner and own at least two
// examples, ascending. All examples of such an id count as one owner's, and the bound keeps few.
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

// swappedFrom is the least number of owners of some example in a graph that looks swapped.
const swappedFrom = 100

// LooksSwapped reports whether a graph may have its examples and owners in each other's place: it
// has more owners than examples, at most half of its owners have several examples, and some example
// has very many owners. most is the largest number of owners of an example.
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

// examplesOf returns the number of examples of each owner.
func (g *Graph) examplesOf() []uint32 {
	number := make([]uint32, g.Owners.Len())
	for _, owner := range g.OwnersOf.Items {
		number[owner]++
	}
	return number
}
