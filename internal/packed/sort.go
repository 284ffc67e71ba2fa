package packed

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// ref points to a record in a sorter's chunks. It carries sixteen of the record's bytes as numbers,
// which decide most comparisons: a look at the record itself usually misses the cache.
type ref struct {
	key   uint64 // eight bytes at the current depth
	after uint64 // the next eight bytes
	chunk uint32
	off   uint32
}

// keyAt returns the eight bytes of record from depth on as a number. Missing bytes count as zeros.
func keyAt(record []byte, depth int) uint64 {
	if depth+8 <= len(record) {
		return binary.BigEndian.Uint64(record[depth:])
	}
	var b [8]byte
	if depth < len(record) {
		copy(b[:], record[depth:])
	}
	return binary.BigEndian.Uint64(b[:])
}

// refSorter sorts refs by the bytes of their records. It spreads them over bins by the eight bytes
// at a depth, sorts small bins by comparison, and repeats within large ones, eight bytes deeper if
// those bytes are all equal.
type refSorter struct {
	record  func(ref) []byte
	scratch []ref
}

// small is the length below which sorting by comparison is faster than spreading over bins.
const small = 48

func (s *refSorter) sort(refs []ref, depth int) {
	if len(refs) <= small {
		slices.SortFunc(refs, func(a, b ref) int {
			switch {
			case a.key != b.key:
				return cmp.Compare(a.key, b.key)
			case a.after != b.after:
				return cmp.Compare(a.after, b.after)
			}
			return bytes.Compare(s.record(a), s.record(b))
		})
		return
	}
	low, high := refs[0].key, refs[0].key
	for _, r := range refs {
		low, high = min(low, r.key), max(high, r.key)
	}
	if low == high {
		s.deeper(refs, depth)
		return
	}
	shift := max(0, bits.Len64(high-low)-bits.Len(uint(len(refs)/4)))
	bins := int((high-low)>>shift) + 1
	ends := make([]uint32, bins+1)
	for _, r := range refs {
		ends[(r.key-low)>>shift+1]++
	}
	for i := 1; i <= bins; i++ {
		ends[i] += ends[i-1]
	}
	if len(s.scratch) < len(refs) {
		s.scratch = make([]ref, len(refs))
	}
	out := s.scratch[:len(refs)]
	for _, r := range refs {
		bin := (r.key - low) >> shift
		out[ends[bin]] = r
		ends[bin]++ // has become the end of the bin
	}
	copy(refs, out)
	start := uint32(0)
	for _, end := range ends[:bins] {
		if end > start+1 {
			s.sort(refs[start:end], depth)
		}
		start = end
	}
}

// deeper sorts refs with records that agree up to depth+8, or end before it.
func (s *refSorter) deeper(refs []ref, depth int) {
	depth += 8
	more := false
	for i, r := range refs {
		record := s.record(r)
		more = more || len(record) > depth
		refs[i].key, refs[i].after = r.after, keyAt(record, depth+8)
	}
	if more {
		s.sort(refs, depth)
		return
	}
	// The records differ in trailing zeros at most.
	slices.SortFunc(refs, func(a, b ref) int { return cmp.Compare(len(s.record(a)), len(s.record(b))) })
}
