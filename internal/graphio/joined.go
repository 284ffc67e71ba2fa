package graphio

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/cespare/xxhash/v2"
)

// NoSeparator is the value of [Options].OwnerSeparator that takes each value for one owner.
const NoSeparator = "none"

// mostScanned is the number of owners, and of parts, that a joinedScan keeps.
const mostScanned = 1 << 18

// joinedScan looks for values with several owners in them. Each would be taken for one owner, and no
// bound would hold for the people in it. The zero value has seen nothing.
//
// Brackets, separators such as ";" and numbers with commas tell by themselves. A comma also stands
// in names such as "Doe, Jane", and a slash in paths: these tell if a tenth of the parts that they
// divide are owners of their own behind another one, or are first in one value and later in another.
type joinedScan struct {
	off    bool            // values are as they should be, or were refused
	within bool            // values are parts, which were divided
	roles  map[uint64]role // of owners and parts, by their hash
	skips  uint64          // hashes with one of these bits are left out, to stay within mostScanned

	values, divided int64  // so far
	separator       string // of the first divided value
	doubt           *Fault // at the first part that tells
}

// role says where in values a text was seen.
type role uint8

const (
	alone role = 1 << iota
	first
	later
	wordless // without a letter: small numbers are first and later in codes too
)

// isOwner reports whether a part with this role is probably an owner.
func (r role) isOwner() bool {
	return r&later != 0 && (r&alone != 0 || r&(first|wordless) == first)
}

// look returns a fault of an owner that certainly stands for several; only one of a split. place makes
// a fault of its place.
func (s *joinedScan) look(id []byte, place func() *Fault) *Fault {
	if s.off {
		return nil
	}
	separator := ""
	switch {
	case !s.within:
		separator = shape(id)
	case bytes.Contains(id, []byte("' '")) || bytes.Contains(id, []byte(`" "`)): // ['ann' 'bob'] has no comma
		separator = " "
	}
	if separator != "" {
		s.off = true
		return joinedFault(place(), separator)
	}
	if separator, joined := s.take(id); joined && s.doubt == nil && !s.within {
		s.doubt = joinedFault(place(), separator)
	}
	return nil
}

// joinedFault adds to a place what was found there.
func joinedFault(f *Fault, separator string) *Fault {
	f.Found = "several owners in one value"
	f.Rule = "they would count as one owner, and no bound would hold for them: set --owner-separator " + quoted(separator) +
		", or write a list column or a record for each owner; of an id that only looks so, set --owner-separator none"
	return f
}

// take adds a value to those seen, and returns its separator if some part tells that owners are joined.
func (s *joinedScan) take(id []byte) (separator string, joined bool) {
	s.values++
	separator = weakSeparator(id)
	if separator == "" {
		return s.separator, s.add(id, alone)
	}
	if s.divided++; s.separator == "" {
		s.separator = separator
	}
	where := first
	for part := range bytes.SplitSeq(id, []byte(separator)) {
		part = bytes.TrimSpace(part)
		if len(part) == 0 {
			continue
		}
		if !bytes.ContainsFunc(part, unicode.IsLetter) {
			where |= wordless
		}
		joined = s.add(part, where) || joined
		where = later
	}
	return separator, joined
}

// add adds a role of a text, and reports whether all its roles tell that owners are joined.
func (s *joinedScan) add(text []byte, r role) bool {
	hash := xxhash.Sum64(text)
	if hash&s.skips != 0 {
		return false
	}
	if s.roles == nil {
		s.roles = map[uint64]role{}
	}
	r |= s.roles[hash]
	s.roles[hash] = r
	if len(s.roles) > mostScanned {
		s.skips = s.skips<<1 | 1
		maps.DeleteFunc(s.roles, func(hash uint64, _ role) bool { return hash&s.skips != 0 })
	}
	return r.isOwner()
}

// end returns the fault of a split whose values tell together that owners are joined.
func (s *joinedScan) end() *Fault {
	if s.off || s.doubt == nil {
		return nil
	}
	parts, owners := 0, 0
	for _, r := range s.roles {
		if r&(first|later) != 0 {
			parts++
		}
		if r.isOwner() {
			owners++
		}
	}
	if 10*owners < parts {
		return nil
	}
	return s.doubt
}

// mayDivide reports whether so many values have a separator within that they may name several owners
// each.
func (s *joinedScan) mayDivide() bool { return !s.off && s.divided > 0 && 20*s.divided >= s.values }

// quoted returns a separator as it is written in a shell.
func quoted(separator string) string {
	if separator[0] < ' ' {
		return "$" + strings.ReplaceAll(strconv.QuoteToASCII(separator), `"`, "'")
	}
	return "'" + separator + "'"
}

// separators divide owners wherever they stand between two texts. Hive divides lists by U+0002.
var separators = []string{";", "|", "；", "｜", "、", "，", "،", "\x01", "\x02", "\x1e", "\x1f"}

// weakSeparators divide owners or stand within ids: see [joinedScan].
var weakSeparators = []string{"\n", "\r", "\t", ",", "/", "&", " + ", " and ", " und ", " et ", " y "}

// weakSeparator returns the separator of a value that may be several owners; "" if there is none.
// Addresses, paths from a root and ids in base 64 are none.
func weakSeparator(id []byte) string {
	if !bytes.ContainsAny(id, "\n\r\t,/& ") {
		return ""
	}
	for _, separator := range weakSeparators {
		if isDivided(id, separator) && (separator != "/" || id[0] != '/' && !bytes.Contains(id, []byte("://")) && !isBase64(id)) {
			return separator
		}
	}
	return ""
}

// isBase64 reports whether an id looks like a hash in base 64.
func isBase64(id []byte) bool {
	return len(id) >= 20 && base64Alphabet.Match(id) && bytes.ContainsAny(id, "0123456789") &&
		bytes.ContainsFunc(id, unicode.IsUpper) && bytes.ContainsFunc(id, unicode.IsLower)
}

var base64Alphabet = regexp.MustCompile(`^[0-9A-Za-z+/]+=*$`)

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

// divides reports whether values are divided into owners.
func (s *Split) divides() bool { return s.OwnerSeparator != "" && s.OwnerSeparator != NoSeparator }

// owners appends to dst the owners in a value, in order: one, those that the separator divides, or
// none if it is empty. Brackets around them are left out, as are blanks and quotes around each, as
// programs print lists.
func (s *Split) owners(dst [][]byte, text []byte) [][]byte {
	if len(text) == 0 {
		return dst
	}
	if !s.divides() {
		return append(dst, text)
	}
	text = bytes.TrimSpace(text)
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
		dst = append(dst, part)
	}
	return dst
}
