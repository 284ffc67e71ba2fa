package graphio

import (
	"fmt"

	"minsep/internal/words"
)

// A file of a few kilobytes can stand for billions of edges: one line that repeats, or numbers
// that follow each other. The amount read from a file is therefore bounded by its size. An edge
// counts as one unit, and every unitText bytes of string ids as one more.
const (
	unitsPerByte = 4 // for each byte of a file
	unitText     = 64
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
