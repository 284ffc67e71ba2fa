package ownergraph

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/text/unicode/norm"

	"minsep/internal/words"
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

// OddIDs says what is odd about the ids of a graph, with the way out: ids that differ only in ways that
// readers do not see, and words in place of unknown owners. It shows no other id.
func (g *Graph) OddIDs() (texts []string) {
	for _, column := range []struct {
		name string
		ids  *IDs
	}{{"owner id", &g.Owners}, {"example id", &g.Examples}} {
		n, examples := column.ids.Lookalikes()
		if n == 0 {
			continue
		}
		texts = append(texts, fmt.Sprintf(
			"%s of which others differ only by case, blanks, quotes, characters without width or the form of letters, such as %s: "+
				"each counts as an id of its own: if some are the same, write them in one way; docs/input.md says how to list them",
			words.Count(n, column.name), strings.Join(examples, ", or ")))
	}
	if ids := g.MissingOwners(); ids != nil {
		texts = append(texts, fmt.Sprintf(
			"the owner %s, which looks like an unknown owner: all examples of it count as examples of one owner, and few are kept: "+
				"give each example its owner, or leave these examples out",
			strings.Join(ids, ", the owner ")))
	}
	return texts
}

// Lookalikes counts the ids of a column of distinct strings, or bytes that are text, of which others differ only by case,
// blanks, quotes, the kind of dashes, characters without width or the normal form of Unicode. It says of up to two
// pairs in which characters they differ, and shows no id.
func (c *IDs) Lookalikes() (count int, examples []string) {
	if c.Type == Int64 {
		return 0, nil
	}
	hash := func(i int) uint64 { return xxhash.Sum64(folded(c.Bytes(i))) }
	hashes := make([]uint64, c.Len())
	for i := range hashes {
		if !IsText(c.Bytes(i)) {
			return 0, nil
		}
		hashes[i] = hash(i)
	}
	slices.Sort(hashes)
	pairs := map[uint64][]rune{} // the first id of each
	for i, h := range hashes {
		if i > 0 && h == hashes[i-1] || i+1 < len(hashes) && h == hashes[i+1] {
			count++
			if len(pairs) < 2 {
				pairs[h] = nil
			}
		}
	}
	for i := 0; i < c.Len() && len(pairs) > 0; i++ {
		h := hash(i)
		id := []rune(string(c.Bytes(i)))
		if one, isExample := pairs[h]; isExample && one == nil {
			pairs[h] = id
		} else if isExample {
			examples = append(examples, difference(one, id))
			delete(pairs, h)
		}
	}
	return count, examples
}

// difference returns the first place at which two texts differ, and the characters there.
func difference(a, b []rune) string {
	if len(a) > len(b) {
		a, b = b, a
	}
	at := 0
	for at < len(a) && a[at] == b[at] {
		at++
	}
	other := "nothing"
	if at < len(a) {
		other = fmt.Sprintf("%U", a[at])
	}
	return fmt.Sprintf("%U against %s as character %d of %d", b[at], other, at+1, len(b))
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
