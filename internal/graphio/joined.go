package graphio

import (
	"bytes"
)

// NoSeparator is the value of [Options].OwnerSeparator that takes each value for one owner.
const NoSeparator = "none"

// mostScanned is the number of owners of each kind that a joinedScan keeps.
const mostScanned = 1 << 16

// joinedScan looks for values with several owners in them. Each would be taken for one owner, and no
// bound would hold for the people in it. The zero value has seen nothing.
//
// Brackets, ";" and "|" tell by themselves. A comma also stands in names such as "Doe,
// Jane": it tells if some part is an owner of its own, or is first in one value and later in another.
type joinedScan struct {
	off    bool            // values are as they should be, or were refused
	single map[string]bool // values without a comma
	parts  map[string]bool // of values with one; whether the part was first
}

// look returns a fault of an owner that stands for several; only one of a split.
func (s *joinedScan) look(id []byte) *Fault {
	if s.off {
		return nil
	}
	separator := ""
	switch first, last := id[0], id[len(id)-1]; {
	case first == '[' && last == ']', (first == '(' && last == ')' || first == '{' && last == '}') && bytes.ContainsAny(id, `,'"`):
		separator = ","
	case isDivided(id, ';'):
		separator = ";"
	case isDivided(id, '|'):
		separator = "|"
	case s.comma(id):
		separator = ","
	default:
		return nil
	}
	s.off = true
	return &Fault{Found: "several owners in one value", Rule: "they would count as one owner, and no bound would hold for them: set --owner-separator '" + separator +
		"', or write a list column or a record for each owner; of an id that only looks so, set --owner-separator none"}
}

// isDivided reports whether a separator has text on both sides.
func isDivided(id []byte, separator byte) bool {
	before, after, found := bytes.Cut(id, []byte{separator})
	return found && len(bytes.TrimSpace(before)) > 0 && len(bytes.TrimSpace(after)) > 0
}

// comma reports whether commas divide the owners seen so far.
func (s *joinedScan) comma(id []byte) bool {
	if s.single == nil {
		s.single, s.parts = map[string]bool{}, map[string]bool{}
	}
	if !isDivided(id, ',') {
		if len(s.single) < mostScanned {
			s.single[string(id)] = true
		}
		_, seen := s.parts[string(id)]
		return seen
	}
	isFirst := true
	for part := range bytes.SplitSeq(id, []byte{','}) {
		part = bytes.TrimSpace(part)
		wasFirst, seen := s.parts[string(part)]
		if s.single[string(part)] || seen && wasFirst != isFirst {
			return true
		}
		if len(s.parts) < mostScanned {
			s.parts[string(part)] = isFirst
		}
		isFirst = false
	}
	return false
}

// divides reports whether values are divided into owners.
func (s *Split) divides() bool { return s.OwnerSeparator != "" && s.OwnerSeparator != NoSeparator }

// owners appends to dst the owners in a value, in order: one, or those that the separator divides.
// Brackets around them are left out, as are blanks and quotes around each, as programs print lists.
func (s *Split) owners(dst [][]byte, value []byte) [][]byte {
	if !s.divides() || len(value) == 0 {
		return append(dst, value)
	}
	value = bytes.TrimSpace(value)
	if len(value) > 1 && bytes.IndexByte([]byte("[({"), value[0]) >= 0 && bytes.IndexByte([]byte("])}"), value[len(value)-1]) >= 0 {
		value = bytes.TrimSpace(value[1 : len(value)-1])
		if len(value) == 0 {
			return dst
		}
	}
	for part := range bytes.SplitSeq(value, []byte(s.OwnerSeparator)) {
		part = bytes.TrimSpace(part)
		if n := len(part); n > 1 && (part[0] == '\'' || part[0] == '"') && part[n-1] == part[0] {
			part = part[1 : n-1]
		}
		dst = append(dst, part)
	}
	return dst
}
