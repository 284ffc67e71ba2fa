package graphio

// wordsPerNumber is the number of words that a column of strings must have for each number, so that
// a number that is not a plain integer is taken for a word too: for a name such as .22, and not for
// another spelling of an id.
const wordsPerNumber = 9

// spelled counts the ids of a column of strings in which each id should have one way to be written.
type spelled struct {
	words, numbers int64    // the numbers are plain integers
	odd            int64    // ids of a kind that isNumber
	faults         []*Fault // of the first of these
}

// isNumber reports whether an id is a number that can be written in another way.
func (k kind) isNumber() bool { return k == oddInteger || k == oddNumber || k == bigInteger }

// isWord reports whether an id that fits is not an integer.
func isWord(id []byte) bool {
	if last := id[len(id)-1]; id[0] > '9' || last > '9' || last < '0' {
		return true
	}
	_, k := parseInt(id)
	return k != fits
}

// count counts an id of kind k. If it is a number in an odd form, count keeps the fault that it
// would be among integers. It reports whether the id may be kept for now.
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
