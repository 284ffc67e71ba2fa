package graphio

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// kind is a kind of value, for messages that must not show the value.
type kind uint8

const (
	fits kind = iota
	empty
	integer
	bigInteger
	oddInteger // an integer not in canonical form
	word
	long
	withNUL
	oddNumber // a number that is not written as an integer
	blanks    // a string with blanks around it
	notUTF8
)

func (k kind) String() string {
	return [...]string{
		fits: "a value that fits", empty: "an empty id", integer: "an integer", bigInteger: "an integer beyond 64 bits",
		oddInteger: "an integer with a sign, leading zeros or blanks", word: "not an integer", long: "a string of more than 255 bytes",
		withNUL: "a string with a NUL byte", oddNumber: "a number that is not a plain integer", blanks: "an id with blanks around it",
		notUTF8: "text that is not UTF-8",
	}[k]
}

// rule is the rule of a column of type t that a value of kind k breaks.
func (k kind) rule(t ownergraph.IDType) string {
	switch k {
	case empty:
		return "every record needs an id: add it, or leave the record out"
	case long:
		return "a string id has at most 255 bytes"
	case withNUL:
		return "text files hold no NUL: iconv -f UTF-16 -t UTF-8 makes UTF-8 of UTF-16"
	case notUTF8:
		return "write it as UTF-8, by iconv -f LATIN1 -t UTF-8 or -f CP1252, whichever it is written in; ids that are bytes belong in a binary column of Parquet"
	case blanks:
		return "nothing is trimmed: remove the blanks, or set --id-type string, which keeps them"
	case bigInteger:
		return "must be a 64-bit signed integer, or set --id-type string"
	}
	if t == ownergraph.String {
		return "7, 007, +7, 7.0 and 7e0 would be five ids: write plain integers, or set --id-type string, which keeps ids as they are written"
	}
	return "must be an integer without plus or leading zeros, as in the first record, or set --id-type string"
}

// parseInt reads a canonical decimal integer: no plus, no leading zeros, no -0.
func parseInt(b []byte) (int64, kind) {
	digits := b
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		digits = b[1:]
	}
	// 19 digits are enough for every int64, and few enough for a uint64 to hold.
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && (len(digits) > 1 || neg) {
		return 0, notInt(b)
	}
	var v uint64
	for _, c := range digits {
		c -= '0'
		if c > 9 {
			return 0, notInt(b)
		}
		v = v*10 + uint64(c) // 19 digits stay below 2^64
	}
	switch {
	case neg && v <= 1<<63:
		return -int64(v), fits
	case !neg && v <= math.MaxInt64:
		return int64(v), fits
	}
	return 0, bigInteger
}

// notInt returns the reason why b is not a canonical integer of 64 bits.
func notInt(b []byte) kind {
	if len(b) == 0 {
		return empty
	}
	// Blanks, a plus or leading zeros: programs that parse the text get the same integer, and
	// programs that compare the text get two ids.
	t := bytes.TrimSpace(b)
	odd := len(t) != len(b)
	if len(t) > 0 && (t[0] == '-' || t[0] == '+') {
		odd = odd || t[0] == '+'
		t = t[1:]
	}
	if len(t) == 0 {
		return word
	}
	for _, c := range t {
		if c < '0' || c > '9' {
			return word
		}
	}
	if odd || t[0] == '0' {
		return oddInteger
	}
	return bigInteger
}

// appendText adds a field of a text file to a column, if it fits. Strings are kept as they are if
// that was asked for, and otherwise if there is one way to write them.
func appendText(dst *ownergraph.IDs, field []byte, asIs bool) kind {
	if dst.Type == ownergraph.Int64 {
		v, k := parseInt(field)
		if k == fits {
			dst.AppendInt(v)
		}
		return k
	}
	switch {
	case len(field) == 0:
		return empty
	case len(field) > stream.MaxStringID:
		return long
	case bytes.IndexByte(field, 0) >= 0:
		return withNUL
	case !utf8.Valid(field):
		return notUTF8
	}
	if !asIs {
		if k := spelling(field); k != fits {
			return k
		}
	}
	dst.AppendBytes(field)
	return fits
}

// textType returns the type that the first record gives to a column, or the reason why it gives
// none. A field that looks like a number and is no canonical integer gives none: 7 and 007 would
// become two owners.
func textType(field []byte) (ownergraph.IDType, kind) {
	if _, k := parseInt(field); k == fits {
		return ownergraph.Int64, fits
	} else if k == empty {
		return ownergraph.String, k
	} else if !utf8.Valid(field) {
		return ownergraph.String, notUTF8
	}
	return ownergraph.String, spelling(field)
}

// spelling returns fits for a string that other files can only write in the same way. The other
// kinds are a number that is not a canonical integer of 64 bits, and an id with blanks around it.
// The string must not be empty.
func spelling(b []byte) kind {
	// Most ids are words or plain integers: their first and last bytes say so, without a full
	// parse.
	first, last := b[0], b[len(b)-1]
	if (first <= ' ' || last <= ' ' || first >= utf8.RuneSelf || last >= utf8.RuneSelf) &&
		len(bytes.TrimSpace(b)) != len(b) {
		if _, k := parseInt(b); k == oddInteger {
			return k
		}
		return blanks
	}
	if first > '9' || last > '9' || first < '+' { // no number begins or ends so
		return fits
	}
	if _, k := parseInt(b); k != word {
		return k
	}
	if _, err := strconv.ParseFloat(string(b), 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return oddNumber
	}
	return fits
}
