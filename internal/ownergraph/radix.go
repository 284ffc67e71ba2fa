package ownergraph

// digitBits is the number of bits of a key that one pass of a radix sort looks at. The 2^11
// counters of a pass take 8 KiB, which stay in the first cache.
const digitBits = 11

// sortDigits sorts order, and keys with it, stably by the lowest bits of the keys, least significant
// digit first: keys[i] is the key of order[i]. It changes both slices and returns the sorted ones.
func sortDigits(keys []uint64, order []uint32, lowest int) ([]uint64, []uint32) {
	keys2, order2 := make([]uint64, len(keys)), make([]uint32, len(order))
	for shift := 0; shift < lowest; shift += digitBits {
		mask := uint64(1)<<min(digitBits, lowest-shift) - 1
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
