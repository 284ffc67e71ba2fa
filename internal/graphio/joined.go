package graphio

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// NoSeparator is the value of [Options].OwnerSeparator that takes each value for one owner.
const NoSeparator = "none"

// mostScanned is the number of owners of each kind that a joinedScan keeps.
const mostScanned = 1 << 16

// joinedScan looks for values with several owners in them. Each would be taken for one owner, and no
// bound would hold for the people in it. The zero value has seen nothing.
//
// Brackets, separators such as ";" and numbers with commas tell by themselves. A comma also stands
// in names such as "Doe, Jane": it tells if some part is an owner of its own, or is first in one value
// and later in another.
type joinedScan struct {
	off    bool            // values are as they should be, or were refused
	within bool            // values are parts, which were divided
	single map[string]bool // values without a comma
	parts  map[string]bool // of values with one; whether the part was first
}

// look returns a fault of an owner that stands for several; only one of a split.
func (s *joinedScan) look(id []byte) *Fault {
	if s.off {
		return nil
	}
	separator := ""
	switch {
	case !s.within:
		separator = shape(id)
		if separator == "" && s.comma(id) {
			separator = ","
		}
	case bytes.Contains(id, []byte("' '")) || bytes.Contains(id, []byte(`" "`)): // ['ann' 'bob'] has no comma
		separator = " "
	}
	if separator == "" {
		return nil
	}
	s.off = true
	return &Fault{
		Found: "several owners in one value",
		Rule: "they would count as one owner, and no bound would hold for them: set --owner-separator " + quoted(separator) +
			", or write a list column or a record for each owner; of an id that only looks so, set --owner-separator none",
	}
}

// quoted returns a separator as it is written in a shell.
func quoted(separator string) string {
	if separator[0] < ' ' {
		return "$" + strings.ReplaceAll(strconv.QuoteToASCII(separator), `"`, "'")
	}
	return "'" + separator + "'"
}

// separators divide owners wherever they stand between two texts. Hive divides lists by U+0002.
var separators = []string{";", "|", "；", "｜", "、", "，", "،", "\x01", "\x02", "\x1e", "\x1f"}

// shape returns the separator of a value that looks like several owners by itself; "" if it does not.
// Commas and blanks stand in names too: they tell if all that they divide has a digit or an @.
func shape(id []byte) string {
	if !slices.ContainsFunc(id, func(b byte) bool { return b < '-' || b == ';' || b == '[' || b >= '{' }) {
		return "" // as nearly all ids
	}
	if inside := unbracketed(id); len(inside) < len(id) && (id[0] == '[' || bytes.ContainsAny(inside, `,'"`)) {
		if bytes.IndexByte(inside, ',') < 0 &&
			bytes.IndexByte(bytes.TrimSpace(inside), ' ') > 0 { // as NumPy prints arrays
			return " "
		}
		return ","
	}
	for _, separator := range separators {
		if isDivided(id, separator) {
			return separator
		}
	}
	for _, separator := range []string{",", " "} {
		if isDivided(id, separator) && allMarked(id, separator) {
			return separator
		}
	}
	return ""
}

// allMarked reports whether all that a separator divides has a digit or an @.
func allMarked(id []byte, separator string) bool {
	for part := range bytes.SplitSeq(id, []byte(separator)) {
		if !bytes.ContainsAny(part, "0123456789@") && len(bytes.TrimSpace(part)) > 0 {
			return false
		}
	}
	return true
}

// unbracketed returns what stands within the brackets around a value; the value if there are none.
func unbracketed(value []byte) []byte {
	if n := len(value); n > 1 {
		opening := bytes.IndexByte([]byte("[({"), value[0])
		if opening >= 0 && value[n-1] == "])}"[opening] {
			return value[1 : n-1]
		}
	}
	return value
}

// isDivided reports whether a separator has text on both sides.
func isDivided(id []byte, separator string) bool {
	if !bytes.Contains(id, []byte(separator)) {
		return false
	}
	parts := 0
	for part := range bytes.SplitSeq(id, []byte(separator)) {
		if len(bytes.TrimSpace(part)) > 0 {
			parts++
		}
	}
	return parts > 1
}

// comma reports whether commas divide the owners seen so far.
func (s *joinedScan) comma(id []byte) bool {
	if s.single == nil {
		s.single, s.parts = map[string]bool{}, map[string]bool{}
	}
	if !isDivided(id, ",") {
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

// owners appends to dst the owners in a value, in order: one, those that the separator divides, or
// none if it is empty. Brackets around them are left out, as are blanks and quotes around each, as
// programs print lists.
func (s *Split) owners(dst []value, v value) []value {
	if len(v.text) == 0 {
		return dst
	}
	if !s.divides() {
		return append(dst, v)
	}
	text := bytes.TrimSpace(v.text)
	if inside := unbracketed(text); len(inside) < len(text) {
		text = bytes.TrimSpace(inside)
		if len(text) == 0 {
			return dst
		}
	}
	separator := []byte(s.OwnerSeparator)
	text = bytes.TrimSuffix(bytes.TrimPrefix(text, separator), separator)
	for part := range bytes.SplitSeq(text, separator) {
		part = bytes.TrimSpace(part)
		if len(part) == 0 && len(bytes.TrimSpace(separator)) == 0 { // between several blanks
			continue
		}
		if n := len(part); n > 1 && (part[0] == '\'' || part[0] == '"') && part[n-1] == part[0] {
			part = part[1 : n-1]
		}
		dst = append(dst, value{part, v.kind})
	}
	return dst
}
