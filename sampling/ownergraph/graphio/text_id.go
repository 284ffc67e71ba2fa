package graphio

import (
	"bytes"
	"math"

	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
)

// kind says what a value is, for messages that must not show it.
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
)

func (k kind) String() string {
	return [...]string{
		fits: "a value that fits", empty: "an empty id", integer: "an integer", bigInteger: "an integer beyond 64 bits",
		oddInteger: "an integer with a sign, leading zeros or blanks", word: "not an integer", long: "a string of more than 255 bytes",
		withNUL: "a string with a NUL byte",
	}[k]
}

// rule says what a column of type t asks of a value of kind k.
func (k kind) rule(t ownergraph.IDType) string {
	switch k {
	case empty:
		return "every record needs an id"
	case long:
		return "a string id has at most 255 bytes"
	case withNUL:
		return "text files hold no NUL; is it UTF-16?"
	case bigInteger:
		return "must be a 64-bit signed integer, or set --id-type string"
	}
	return "must be a canonical " + t.String() + " as the first record is, or set --id-type string"
}

// parseInt reads a canonical decimal integer: no plus, no leading zeros, no -0.
func parseInt(b []byte) (int64, kind) {
	digits := b
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		digits = b[1:]
	}
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

// notInt says why b is not a canonical integer of 64 bits.
func notInt(b []byte) kind {
	if len(b) == 0 {
		return empty
	}
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

// appendText adds a field of a text file to a column, if it fits.
func appendText(dst *ownergraph.IDs, field []byte) kind {
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
	}
	dst.AppendBytes(field)
	return fits
}

// textType is the type that the first record gives to a column, or why it gives none. An integer with blanks around it
// is a fault and not a string: "7" and " 7" would become two owners.
func textType(field []byte) (ownergraph.IDType, kind) {
	if _, k := parseInt(field); k == fits {
		return ownergraph.Int64, fits
	} else if k == empty || k == oddInteger && len(bytes.TrimSpace(field)) != len(field) {
		return ownergraph.String, k
	}
	return ownergraph.String, fits
}
