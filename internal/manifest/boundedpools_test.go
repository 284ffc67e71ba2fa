package manifest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ownergraph"

	"pgregory.net/rapid"
)

// TestBoundedTableOfPools reads tables with pools back, with owners and without.
func TestBoundedTableOfPools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 100, boundedPageRows + 1}).Draw(t, "rows")
		rows := makeRows(rapid.SampledFrom(idTypes).Draw(t, "example"), rapid.SampledFrom(idTypes).Draw(t, "owner"), 3, n, func() int { return rapid.IntRange(0, 3).Draw(t, "owners") })
		for range n {
			pool := rapid.Uint32Range(0, ownergraph.MaxPools-5).Draw(t, "pool")
			rows.AppendPools([]uint32{pool, pool + 1, pool + 4}[:rapid.IntRange(1, 3).Draw(t, "pools")]...)
		}
		b := writePart(t, rows, max(n, 1))
		if again := writePart(t, rows, rapid.IntRange(1, 700).Draw(t, "portion")); !bytes.Equal(b, again) {
			t.Fatal("the bytes depend on the portions")
		}
		for _, owners := range []bool{true, false} {
			p, err := OpenBoundedPart(bytes.NewReader(b), int64(len(b)))
			if err != nil || !p.Pools {
				t.Fatalf("pools %v: %v", p.Pools, err)
			}
			row := 0
			err = p.Each(3, owners, rapid.IntRange(1, 5000).Draw(t, "size"), func(r *ownergraph.Rows) error {
				for i := range r.Len() {
					if !slices.Equal(r.PoolsOf(i), rows.PoolsOf(row)) {
						t.Fatalf("row %d is in pools %d, want %d", row, r.PoolsOf(i), rows.PoolsOf(row))
					}
					row++
				}
				return nil
			})
			if err != nil || row != n {
				t.Fatalf("%d rows: %v", row, err)
			}
		}
	})
}

// TestBoundedPoolsRefused writes pools that no table has, past what the writer refuses.
func TestBoundedPoolsRefused(t *testing.T) {
	one := func() int { return 1 }
	for want, pools := range map[string][]uint32{
		"must ascend":       {4, 3},
		"must ascend, from": {2, 2},
		"below 4096":        {ownergraph.MaxPools},
	} {
		rows := makeRows(ownergraph.Int64, ownergraph.Int64, 0, 1, one)
		rows.AppendPools(pools...)
		b := writePart(t, rows, 1)
		if _, _, err := readPart(b, 0, true, 10); err == nil || !strings.Contains(err.Error(), "row group 1: pools") || !strings.Contains(err.Error(), want) {
			t.Errorf("pools %d: %v", pools, err)
		}
	}
	rows := makeRows(ownergraph.Int64, ownergraph.Int64, 0, 2, one)
	for _, pools := range []bool{true, false} {
		if pools {
			rows.PoolEnds, rows.Pools = nil, nil
		} else {
			rows.AppendPools(1)
			rows.AppendPools(2)
		}
		if err := NewBoundedWriter(new(bytes.Buffer), ownergraph.Int64, ownergraph.Int64, pools).Write(rows); err == nil {
			t.Errorf("a table with pools %v took rows without %v", pools, pools)
		}
	}
	rows.PoolEnds, rows.Pools = []uint32{0, 1}, []uint32{7} // the first row is in none
	must.Fail(t, "a row without a pool", "row 0 is in no pool")(NewBoundedWriter(new(bytes.Buffer), ownergraph.Int64, ownergraph.Int64, true).Write(rows))
}
