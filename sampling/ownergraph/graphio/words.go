package graphio

import (
	"fmt"

	"minsep/internal/words"
)

// wordsPerNumber is how many words there must be in a column of strings for each number, so that
// numbers that are not plain integers are taken for words too: they are names that look so, such as
// .22, and not the ids of a table in another spelling.
const wordsPerNumber = 9

// spelled counts the ids of a column of strings in which each id should have one way to be written.
type spelled struct {
	words, numbers int64    // the numbers are plain integers
	odd            int64    // ids of a kind that isNumber
	faults         []*Fault // of the first of these
}

// isNumber says that an id is a number that can be written in another way.
func (k kind) isNumber() bool { return k == oddInteger || k == oddNumber || k == bigInteger }

// isWord says that an id that fits is no integer.
func isWord(id []byte) bool {
	if last := id[len(id)-1]; id[0] > '9' || last > '9' || last < '0' {
		return true
	}
	_, k := parseInt(id)
	return k != fits
}

// count takes note of an id that is of kind k, where it is a number with the fault that it would be
// elsewhere. It says whether the id may be kept for now.
func (s *spelled) count(id []byte, k kind, fault func() *Fault) bool {
	switch {
	case k.isNumber():
		if s.odd++; len(s.faults) < MaxFaults {
			s.faults = append(s.faults, fault())
		}
	case k != fits:
		return false
	case isWord(id):
		s.words++
	default:
		s.numbers++
	}
	return true
}

// settle decides on the numbers that were kept: in a column of mostly words they are words, and a
// warning says so. Else they are faults.
func (b *batcher) settle() {
	for i := range b.spelled {
		s := &b.spelled[i]
		switch {
		case s.odd == 0:
		case s.words >= wordsPerNumber*(s.numbers+s.odd):
			w := *s.faults[0]
			w.File, w.Number = b.split.Path, b.split.Number
			w.Found = fmt.Sprintf("%s from here on that %s no plain %s, in a column of words", words.Count(int(s.odd), "number"),
				map[bool]string{true: "is", false: "are"}[s.odd == 1], map[bool]string{true: "integer", false: "integers"}[s.odd == 1])
			w.Rule = "each is kept as it is written, as a string"
			b.noted = append(b.noted, &w)
		default:
			for _, f := range s.faults {
				if b.fault(f) != nil {
					break
				}
			}
		}
	}
}
