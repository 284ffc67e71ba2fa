package ownergraph

import "math/bits"

// digitBits is the number of bits of a key that one pass of a radix sort looks at. The 2^11
// counters of a pass take 8 KiB, which stay in the first cache.
const digitBits = 11

// sortByKey sorts order stably: keys[i] is the key of order[i]. It changes both slices and returns
// the sorted order.
func sortByKey(keys []uint64, order []uint32) []uint32 {
	low, high := ^uint64(0), uint64(0)
	for _, k := range keys {
		low, high = min(low, k), max(high, k)
	}
	if len(keys) == 0 || low == high {
		return order
	}
	if differ := bits.LeadingZeros64(low ^ high); differ > 0 { // leading bits that all keys share cost nothing
		mask := ^uint64(0) >> differ
		for i := range keys {
			keys[i] &= mask
		}
		high &= mask
	}
	_, order = sortDigits(keys, order, 0, bits.Len64(high))
	return order
}

// sortDigits sorts order, and keys with it, stably by bits first to end-1 of the keys, least
// significant digit first. It changes both slices and returns the sorted ones.
func sortDigits(keys []uint64, order []uint32, first, end int) ([]uint64, []uint32) {
	keys2, order2 := make([]uint64, len(keys)), make([]uint32, len(order))
	for shift := first; shift < end; shift += digitBits {
		mask := uint64(1)<<min(digitBits, end-shift) - 1
		var next [1 << digitBits]uint32
		for _, k := range keys {
			next[k>>shift&mask]++
		}
		sum := uint32(0)
		for i, n := range next {
			next[i], sum = sum, sum+n
		}
		for i, k := range keys {
			at := &next[k>>shift&mask]
			keys2[*at], order2[*at] = k, order[i]
			*at++
		}
		keys, keys2, order, order2 = keys2, keys, order2, order
	}
	return keys, order
}
