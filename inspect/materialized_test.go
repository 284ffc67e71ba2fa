package inspect

import (
	"testing"

	"minsep/manifest"
)

// TestIsStep: entries are those of their batch in any order of rows or owners, in slots from 0 on,
// with padding at the end; anything else is found.
func TestIsStep(t *testing.T) {
	entries := func(rows ...int64) (list []manifest.Entry) {
		for i, row := range rows {
			list = append(list, manifest.Entry{Slot: i, Row: row})
		}
		return list
	}
	owned := func(owners []int64, rows ...int64) []manifest.Entry {
		list := entries(rows...)
		for i := range list {
			list[i].Owner = owners[i]
		}
		return list
	}
	slots := entries(3, 5)
	slots[1].Slot = 2
	for name, c := range map[string]struct {
		entries []manifest.Entry
		rows    []int64
		ends    []int
		pad     int
		want    bool
	}{
		"another order":     {entries(5, 3), []int64{3, 5}, nil, 0, true},
		"copies":            {entries(5, 3, 5), []int64{3, 5, 5}, nil, 0, true},
		"a copy too many":   {entries(5, 3, 5), []int64{3, 5}, nil, 0, false},
		"empty":             {nil, nil, nil, 0, true},
		"missing":           {entries(3), []int64{3, 5}, nil, 0, false},
		"another row":       {entries(3, 6), []int64{3, 5}, nil, 0, false},
		"slots":             {slots, []int64{3, 5}, nil, 0, false},
		"batch padded":      {entries(3), []int64{3, -1, -1}, nil, 0, true},
		"padded":            {entries(5, 3, -1, -1), []int64{3, 5}, nil, 4, true},
		"padded, empty":     {entries(-1, -1), nil, nil, 2, true},
		"not padded":        {entries(5, 3), []int64{3, 5}, nil, 4, false},
		"empty, no padding": {nil, nil, nil, 2, false},
		"too much padding":  {entries(5, 3, -1, -1), []int64{3, 5}, nil, 2, false},
		"padding between":   {entries(5, -1, 3, -1), []int64{3, 5}, nil, 4, false},
		"padding unasked":   {entries(5, 3, -1), []int64{3, 5}, nil, 0, false},
		"owners":            {owned([]int64{0, 1, 1}, 7, 3, 5), []int64{3, 5, 7}, []int{2, 3}, 0, true},
		"owners, padded":    {owned([]int64{0, 1, -1}, 7, 3, -1), []int64{3, -1, 7, -1, -1, -1}, []int{2, 4, 6}, 3, true},
		"owner in two":      {owned([]int64{0, 1, 0}, 3, 7, 5), []int64{3, 5, 7}, []int{2, 3}, 0, false},
		"owners mixed":      {owned([]int64{0, 0, 1}, 3, 7, 5), []int64{3, 5, 7}, []int{2, 3}, 0, false},
		"owner's rows":      {owned([]int64{0, 0, 1}, 5, 3, 7), []int64{3, 5, 7}, []int{2, 3}, 0, false},
		"owner numbers":     {owned([]int64{1, 2, 2}, 7, 3, 5), []int64{3, 5, 7}, []int{2, 3}, 0, false},
	} {
		if got := isStep(c.entries, c.rows, c.ends, c.pad); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
