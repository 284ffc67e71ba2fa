package ownergraph

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
)

// numbered returns the distinct ids of some columns of one type, ascending, and for every id of the
// columns, one column after the other, its number among them. It empties each column as soon as it
// can, to free its memory.
func numbered(typ IDType, columns []IDs) (ids IDs, number []uint32) {
	n := 0
	for i := range columns {
		n += columns[i].Len()
	}
	switch {
	case n == 0:
		return IDs{Type: typ}, nil
	case typ == Int64:
		return numberedIntegers(columns, n)
	}
	return numberedText(typ, columns, n)
}

// numberedIntegers numbers n integers: within a span of 64 times their number by a set of bits, as most
// graphs have them, which takes half the time of sorting; others by sorting.
func numberedIntegers(columns []IDs, n int) (ids IDs, number []uint32) {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range columns {
		for _, v := range columns[i].ints {
			low, high = min(low, v), max(high, v)
		}
	}
	if span := uint64(high) - uint64(low); span/64 < uint64(n) {
		return numberedDense(columns, n, low, span)
	}
	keys, order := make([]uint64, 0, n), make([]uint32, n)
	for i := range columns {
		for _, v := range columns[i].ints {
			keys = append(keys, uint64(v)-uint64(low))
		}
		columns[i] = IDs{}
	}
	for i := range order {
		order[i] = uint32(i)
	}
	keys, order = sortDigits(keys, order, bits.Len64(slices.Max(keys)))
	distinct := 0
	for i, k := range keys {
		if i == 0 || k != keys[i-1] {
			distinct++
		}
	}
	ids.ints, number = make([]int64, 0, distinct), make([]uint32, n)
	for i, at := range order {
		if i == 0 || keys[i] != keys[i-1] {
			ids.ints = append(ids.ints, low+int64(keys[i]))
		}
		number[at] = uint32(len(ids.ints) - 1)
	}
	return ids, number
}

// numberedDense numbers integers from low to low+span by a set of bits: the number of an id is the
// count of smaller elements, from a prefix sum and one word.
func numberedDense(columns []IDs, n int, low int64, span uint64) (ids IDs, number []uint32) {
	set := make([]uint64, span/64+1)
	for i := range columns {
		for _, v := range columns[i].ints {
			at := uint64(v) - uint64(low)
			set[at/64] |= 1 << (at % 64)
		}
	}
	before := make([]uint32, len(set)) // elements in the words before
	count := uint32(0)
	for i, word := range set {
		before[i] = count
		count += uint32(bits.OnesCount64(word))
	}
	number = make([]uint32, 0, n)
	for i := range columns {
		for _, v := range columns[i].ints {
			at := uint64(v) - uint64(low)
			number = append(number, before[at/64]+uint32(bits.OnesCount64(set[at/64]&(1<<(at%64)-1))))
		}
		columns[i] = IDs{}
	}
	ids.ints = make([]int64, 0, count)
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			ids.ints = append(ids.ints, low+int64(i)*64+int64(bits.TrailingZeros64(word)))
		}
	}
	return ids, number
}

// numberedText numbers n strings in the order in which they come, by a map of the earlier ones. It
// then sorts the distinct strings, which are usually far fewer, and renumbers.
func numberedText(typ IDType, columns []IDs, n int) (ids IDs, number []uint32) {
	number = make([]uint32, 0, n)
	distinct, seed := IDs{Type: typ}, maphash.MakeSeed()
	found := map[uint64]uint32{} // by hash; of equal hashes, the later strings are at the next ones
	for i := range columns {
		for j := range columns[i].Len() {
			id := columns[i].Bytes(j)
			for hash := maphash.Bytes(seed, id); ; hash++ {
				k, seen := found[hash]
				if !seen {
					k = uint32(distinct.Len())
					found[hash] = k
					distinct.AppendBytes(id)
				} else if !bytes.Equal(distinct.Bytes(int(k)), id) {
					continue
				}
				number = append(number, k)
				break
			}
		}
		columns[i] = IDs{}
	}
	rank := make([]uint32, distinct.Len())
	ids = IDs{Type: typ, text: make([]byte, 0, len(distinct.text)), ends: make([]int, 0, distinct.Len())}
	for i, at := range sortText(&distinct) {
		rank[at.number] = uint32(i)
		ids.AppendFrom(&distinct, int(at.number))
	}
	for i, at := range number {
		number[i] = rank[at]
	}
	return ids, number
}

// textKey is a string of a column, with eight of its bytes as a number: they decide most comparisons,
// and a look at the string usually misses the cache.
type textKey struct {
	bytes  uint64
	number uint32
}

// sortText returns the strings of a column that is not empty in their order.
func sortText(c *IDs) []textKey {
	shared := c.Bytes(0) // by all, at their beginning
	for i := range c.Len() {
		for !bytes.HasPrefix(c.Bytes(i), shared) {
			shared = shared[:len(shared)-1]
		}
	}
	keys := make([]textKey, c.Len())
	for i := range keys {
		var first [8]byte
		copy(first[:], c.Bytes(i)[len(shared):])
		keys[i] = textKey{binary.BigEndian.Uint64(first[:]), uint32(i)}
	}
	slices.SortFunc(keys, func(a, b textKey) int {
		if a.bytes != b.bytes {
			return cmp.Compare(a.bytes, b.bytes)
		}
		return bytes.Compare(c.Bytes(int(a.number)), c.Bytes(int(b.number)))
	})
	return keys
}
