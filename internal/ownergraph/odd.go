package ownergraph

import (
	"bytes"
	"hash/maphash"
	"slices"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

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

// LooksSwapped reports whether a graph may have its examples and owners in each other's place: no
// owner has two examples, and examples have three owners or more on average; or it has more owners
// than examples, at most half of its owners have several examples, and some example has a hundred
// owners or more. most is the largest number of owners of an example.
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
	if several == 0 && g.Owners.Len() >= 3*g.Examples.Len() {
		return most, true
	}
	return most, most >= 100 && g.Owners.Len() > g.Examples.Len() && several <= g.Owners.Len()/2
}

// Lookalikes counts the ids of a column of distinct strings of which others differ only by case,
// blanks, characters without width or the normal form of Unicode.
func (c *IDs) Lookalikes() (count int) {
	if c.Type != String {
		return 0
	}
	seed := maphash.MakeSeed()
	hashes := make([]uint64, c.Len())
	for i := range hashes {
		hashes[i] = maphash.Bytes(seed, folded(c.Bytes(i)))
	}
	slices.Sort(hashes)
	for i, h := range hashes {
		if i > 0 && h == hashes[i-1] || i+1 < len(hashes) && h == hashes[i+1] {
			count++
		}
	}
	return count
}

// folded returns an id without what readers do not see.
func folded(id []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFC.Bytes(id))
}

// examplesOf returns the number of examples of each owner.
func (g *Graph) examplesOf() []uint32 {
	number := make([]uint32, g.Owners.Len())
	for _, owner := range g.OwnersOf.Items {
		number[owner]++
	}
	return number
}
