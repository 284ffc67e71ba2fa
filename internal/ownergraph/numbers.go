package ownergraph

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
)

// Number returns the distinct ids of a column, ascending, and for every id of the column its number
// among them. It empties the column.
func Number(column *IDs) (ids IDs, number []uint32) {
	columns := []IDs{*column}
	*column = IDs{Type: column.Type}
	return numbered(column.Type, columns)
}

// numbered returns the distinct ids of some columns of one type, ascending, and for every id of the
// columns, one column after the other, its number among them. It empties each column as soon as it
// can, to free its memory. Integers within a span of 64 times their number are numbered by a set of
// bits, others by sorting.
func numbered(typ IDType, columns []IDs) (ids IDs, number []uint32) {
	n := 0
	for i := range columns {
		n += columns[i].Len()
	}
	ids.Type = typ
	switch {
	case n == 0:
		return ids, nil
	case typ != Int64:
		return numberedText(typ, columns, n)
	}
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range columns {
		for _, v := range columns[i].ints {
			low, high = min(low, v), max(high, v)
		}
	}
	if span := uint64(high) - uint64(low); span/64 < uint64(n) {
		ids.ints, number = numberedDense(columns, n, low, span)
	} else {
		ids.ints, number = numberedSparse(columns, n, low)
	}
	return ids, number
}

// numberedDense numbers integers from low to low+span by a set of bits: the number of an id is the
// count of smaller elements, from a prefix sum and one word.
func numberedDense(columns []IDs, n int, low int64, span uint64) (ids []int64, number []uint32) {
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
	ids = make([]int64, 0, count)
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			ids = append(ids, low+int64(i)*64+int64(bits.TrailingZeros64(word)))
		}
	}
	return ids, number
}

// numberedSparse numbers integers by sorting them; low is the least.
func numberedSparse(columns []IDs, n int, low int64) (ids []int64, number []uint32) {
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
	keys, order = sortDigits(keys, order, 0, bits.Len64(slices.Max(keys)))
	distinct := 0
	for i, k := range keys {
		if i == 0 || k != keys[i-1] {
			distinct++
		}
	}
	ids, number = make([]int64, 0, distinct), make([]uint32, n)
	for i, at := range order {
		if i == 0 || keys[i] != keys[i-1] {
			ids = append(ids, low+int64(keys[i]))
		}
		number[at] = uint32(len(ids) - 1)
	}
	return ids, number
}

// numberedText numbers strings in the order in which they come, with a hash table of the earlier
// ones. It then sorts the distinct strings, which are usually far fewer, and renumbers.
func numberedText(typ IDType, columns []IDs, n int) (ids IDs, number []uint32) {
	found := newTextTable()
	number = make([]uint32, 0, n)
	for i := range columns {
		number = found.numbers(&columns[i], number)
		columns[i] = IDs{}
	}
	found.slots = nil
	order := sortText(&found.ids)
	rank := make([]uint32, len(order))
	ids = IDs{Type: typ, text: make([]byte, 0, len(found.ids.text)), ends: make([]int, 0, len(order))}
	for i, at := range order {
		rank[at] = uint32(i)
		ids.AppendFrom(&found.ids, int(at))
	}
	for i, at := range number {
		number[i] = rank[at]
	}
	return ids, number
}

// textTable numbers distinct strings in the order in which they come.
type textTable struct {
	seed  maphash.Seed
	ids   IDs      // by number
	slots []uint64 // by hash: its upper half, and 1 + a number, or 0; at most half are taken
}

// newTextTable returns an empty table.
func newTextTable() *textTable {
	return &textTable{seed: maphash.MakeSeed(), ids: IDs{Type: String}, slots: make([]uint64, 1<<12)}
}

// numbers appends the numbers of a column's ids to dst. It reads the slots of a block of ids before
// it decides on any, since they lie anywhere in memory: see fillOnce. Slots that a decision in the
// block fills meanwhile are found by number, which reads the table again.
func (t *textTable) numbers(c *IDs, dst []uint32) []uint32 {
	const block = 64
	var hashes, first [block]uint64
	for from := 0; from < c.Len(); from += block {
		n := min(block, c.Len()-from)
		for 2*(t.ids.Len()+n) > len(t.slots) {
			t.grow()
		}
		mask := uint64(len(t.slots) - 1)
		for i := range n {
			hashes[i] = maphash.Bytes(t.seed, c.Bytes(from+i))
		}
		for i := range n {
			first[i] = t.slots[hashes[i]&mask]
		}
		for i := range n {
			if id := c.Bytes(from + i); first[i] != 0 && first[i]>>32 == hashes[i]>>32 && bytes.Equal(t.ids.Bytes(int(uint32(first[i])-1)), id) {
				dst = append(dst, uint32(first[i])-1)
			} else {
				dst = append(dst, t.number(id, hashes[i]))
			}
		}
	}
	return dst
}

// number returns the number of an id, and adds the id if it is new. It probes linearly; a slot's
// upper half of the hash saves most comparisons of strings.
func (t *textTable) number(id []byte, hash uint64) uint32 {
	mask := uint64(len(t.slots) - 1)
	at := hash & mask
	for ; t.slots[at] != 0; at = (at + 1) & mask {
		if n := uint32(t.slots[at]) - 1; t.slots[at]>>32 == hash>>32 && bytes.Equal(t.ids.Bytes(int(n)), id) {
			return n
		}
	}
	t.ids.AppendBytes(id)
	t.slots[at] = hash>>32<<32 | uint64(t.ids.Len())
	return uint32(t.ids.Len() - 1)
}

// grow makes the table four times as large.
func (t *textTable) grow() {
	t.slots = make([]uint64, 4*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for n := range t.ids.Len() {
		hash := maphash.Bytes(t.seed, t.ids.Bytes(n))
		at := hash & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = hash>>32<<32 | uint64(n+1)
	}
}

// sortText returns the positions of a column of strings in their order.
func sortText(c *IDs) []uint32 {
	order := make([]uint32, c.Len())
	for i := range order {
		order[i] = uint32(i)
	}
	sortTextFrom(c, order, 0)
	return order
}

// sortTextFrom sorts order in place. Its strings agree in their first depth bytes. It sorts by keys
// of the next bytes, and then each range of equal keys by the bytes that follow.
func sortTextFrom(c *IDs, order []uint32, depth int) {
	const few = 64 // at most so many are sorted faster by comparing
	if len(order) <= few {
		slices.SortFunc(
			order,
			func(a, b uint32) int { return bytes.Compare(c.Bytes(int(a))[depth:], c.Bytes(int(b))[depth:]) },
		)
		return
	}
	// By the next seven bytes, and how many there are: a string that ends comes before those that
	// go on with zeros.
	keys, sorted := make([]uint64, len(order)), make([]uint32, len(order))
	for i, at := range order {
		keys[i], sorted[i] = textKey(c.Bytes(int(at))[depth:]), uint32(i)
	}
	byKey := sortByKey(slices.Clone(keys), sorted)
	out := make([]uint32, len(order))
	for i, at := range byKey {
		out[i] = order[at]
	}
	copy(order, out)
	for start := 0; start < len(order); {
		end, key := start+1, keys[byKey[start]]
		for end < len(order) && keys[byKey[end]] == key {
			end++
		}
		if end > start+1 && key&0xff == keyBytes { // all have as many bytes as a key holds, and maybe more
			sortTextFrom(c, order[start:end], depth+keyBytes)
		}
		start = end
	}
}

// keyBytes is the number of bytes of a string that a key holds; the eighth holds their number.
const keyBytes = 7

// textKey returns a number that orders strings by their first keyBytes bytes, and then by the
// number of bytes, at most keyBytes.
func textKey(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)&^0xff | keyBytes
	}
	var first [8]byte
	copy(first[:keyBytes], b)
	return binary.BigEndian.Uint64(first[:]) | uint64(min(len(b), keyBytes))
}
