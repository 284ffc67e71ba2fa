package graphio

import (
	"errors"
	"fmt"
	"io"

	"minsep/internal/words"
)

// A file of a few kilobytes can stand for billions of edges: one line that repeats, or numbers
// that follow each other. The amount read from a file is therefore bounded by its size. An edge
// counts as one unit, and every unitText bytes of string ids as one more.
const (
	unitsPerByte = 4 // for each byte of a file
	unitText     = 64

	freeText    = 64 << 20 // bytes of text of any compressed file
	textPerByte = 200      // and for each of its bytes
)

// freeUnits are those of any file: edges that take a gigabyte of memory. Numbers that follow each
// other take next to no place in a file of Parquet.
var freeUnits = int64(1 << 26)

// denseRule is the way out for a file that stands for too much.
const denseRule = "a file that stands for so much more than it stores would take all memory: write text without compression, and Parquet with plain pages"

// mostUnits returns the largest number of units for which a file of a size may stand.
func mostUnits(size int64) int64 { return freeUnits + unitsPerByte*size }

// dense is the fault of a file of a size that stands for more units.
func dense(size int64) *Fault {
	return &Fault{
		Found: fmt.Sprintf("more than %s edges in %s bytes", words.Grouped(mostUnits(size)), words.Grouped(size)),
		Rule:  denseRule,
	}
}

// errDense ends the reading of a compressed text that is too long.
var errDense = errors.New("the text of a compressed file is longer than it may be")

// denseText is the fault of a compressed file of a size with too long a text.
func denseText(size int64) *Fault {
	return &Fault{
		Found: fmt.Sprintf(
			"more than %s bytes of text in %s bytes",
			words.Grouped(mostText(size)),
			words.Grouped(size),
		),
		Rule: denseRule,
	}
}

func mostText(size int64) int64 { return freeText + textPerByte*size }

// bounded reads the decompressed text of a file, up to the limit for its size.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errDense
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
