package ownergraph

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawColumns draws columns of ids of one type: of few different ones or many, close together or
// far apart, in order or not.
func drawColumns(t *rapid.T) (typ IDType, columns []IDs) {
	typ = rapid.SampledFrom([]IDType{Int64, String}).Draw(t, "type")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	different := rapid.SampledFrom([]int{1, 2, 50, 700}).Draw(t, "different ids")
	pool := IDs{Type: typ}
	shape := rapid.IntRange(0, 3).Draw(t, "shape")
	for i := range different {
		if typ == Int64 {
			pool.AppendInt([]int64{int64(i) - 20, math.MinInt64 + int64(i), rng.Int64() - rng.Int64(), int64(i) << 40}[shape])
			continue
		}
		id := make([]byte, rng.IntN(24))
		for j := range id {
			id[j] = []byte{0, 0, 1, 'a', 255}[rng.IntN(5)]
		}
		pool.AppendBytes(append([]byte(strings.Repeat("prefix", shape)), id...))
	}
	if typ == Int64 && shape == 2 {
		pool.AppendInt(math.MaxInt64)
		pool.AppendInt(math.MinInt64)
	}
	for range rapid.IntRange(0, 3).Draw(t, "columns") {
		c := IDs{Type: typ}
		for range rng.IntN(900) {
			c.AppendFrom(&pool, rng.IntN(pool.Len()))
		}
		columns = append(columns, c)
	}
	return typ, columns
}

// TestNumbered numbers ids by the definition, too.
func TestNumbered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ, columns := drawColumns(t)
		all := IDs{Type: typ}
		for i := range columns {
			all.AppendAll(&columns[i])
		}
		order := make([]int, all.Len())
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return all.Compare(a, &all, b) })
		want, distinct := make([]uint32, all.Len()), IDs{Type: typ}
		for i, at := range order {
			if i == 0 || all.Compare(order[i-1], &all, at) != 0 {
				distinct.AppendFrom(&all, at)
			}
			want[at] = uint32(distinct.Len() - 1)
		}
		ids, number := numbered(typ, columns)
		if !slices.Equal(number, want) {
			t.Fatalf("numbers %v, want %v", number, want)
		}
		if ids.Type != typ || !slices.Equal(ids.ints, distinct.ints) || !slices.Equal(ids.ends, distinct.ends) || !bytes.Equal(ids.text, distinct.text) {
			t.Fatal("the distinct ids are others, or in another order")
		}
	})
}
