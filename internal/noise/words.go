package noise

import (
	"minsep/internal/param"
	"minsep/internal/stream"
)

// Words names the source of a recipe's random words, and with it the arithmetic of its values: see
// the package comment.
type Words string

const (
	AES128   Words = "aes-128"  // the default: fast where the processor has instructions for AES
	ChaCha12 Words = "chacha12" // for values that accelerators make as well, to the bit
)

// ParseWords returns the source of a name; "" is [AES128].
func ParseWords(name string) (Words, error) {
	switch w := Words(name); w {
	case "", AES128:
		return AES128, nil
	case ChaCha12:
		return w, nil
	}
	return "", param.Fault("words", name,
		"must be %s, or %s for noise that is made on accelerators", AES128, ChaCha12)
}

// arithmetic returns the arithmetic of the values.
func (w Words) arithmetic() arithmetic {
	if w == ChaCha12 {
		return apart
	}
	return fused
}

// wordSource gives the random words of pairs of coordinates, two of each.
type wordSource interface {
	Words(dst []uint64, number, pair uint64)
}

// source returns the words of a key.
func (w Words) source(key stream.Key) wordSource {
	if w == ChaCha12 {
		return stream.NewChaCha(key)
	}
	return stream.NewBulk(key)
}

// arithmetic says how a product is added.
type arithmetic uint8

const (
	fused arithmetic = iota // product and sum are rounded once
	apart                   // the product is rounded before it is added, which every program can do
)
