package ownergraph

import (
	"bytes"
	"hash/maphash"
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// missing are texts that programs write for an unknown owner, in the order of their bytes: they are
// searched by halving.
var missing = []string{
	"<NA>",
	"N/A",
	"NA",
	"NULL",
	"NaN",
	"None",
	"UNKNOWN",
	"Unknown",
	"\\N",
	"anonymous",
	"n/a",
	"nan",
	"nil",
	"none",
	"null",
	"undefined",
	"unknown",
}

// LooksSwapped reports whether a graph may have its examples and owners in each other's place: no
// owner has two examples, some example has three owners or more, and on average they have one and a half;
// or it has more owners than examples, at most half of its owners have several examples, and some
// example has a hundred owners or more.
func (s *Summary) LooksSwapped() bool {
	several := s.Owners - s.GivenPerOwner.Of(1)
	if several == 0 && s.GivenOwners.Most() >= 3 && 2*s.Owners >= 3*s.Examples {
		return true
	}
	return s.GivenOwners.Most() >= 100 && s.Owners > s.Examples && several <= s.Owners/2
}

// IsText reports whether an id of bytes is text, as some programs store it.
func IsText(id []byte) bool { return utf8.Valid(id) && bytes.IndexByte(id, 0) < 0 }

// Lookalikes counts the ids of a column of distinct strings, or bytes that are text, of which others differ only by case,
// blanks, quotes, the kind of dashes, characters without width or the normal form of Unicode.
func (c *IDs) Lookalikes() (count int) {
	if c.Type == Int64 {
		return 0
	}
	seed := maphash.MakeSeed()
	hashes := make([]uint64, c.Len())
	for i := range hashes {
		if !IsText(c.Bytes(i)) {
			return 0
		}
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

// folded returns an id without what readers do not see or do not tell apart.
func folded(id []byte) []byte {
	return bytes.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r),
			unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Quotation_Mark):
			return -1
		case unicode.Is(unicode.Dash, r):
			return '-'
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, norm.NFKC.Bytes(id))
}
