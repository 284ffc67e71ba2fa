package ownergraph

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
)

// TestOdd: words for owners who are not known are found, and columns
// look swapped where the same graph with its columns in each other's place does not.
func TestOdd(t *testing.T) {
	if !slices.IsSorted(missing) {
		t.Error("the words for owners who are not known are not in order")
	}
	graph := func(edges [][2]string) *Graph {
		var e Edges
		e.Reset(String, String)
		for _, edge := range edges {
			e.Examples.AppendBytes([]byte(edge[0]))
			e.Owners.AppendBytes([]byte(edge[1]))
		}
		g := must.Get(New(&e))(t)
		return g
	}
	g := graph([][2]string{{"1", "nan"}, {"2", "NA"}, {"3", "nan"}, {"4", "ann"}, {"5", "ann"}, {"6", "NA"}, {"7", "null"}, {"8", "nancy"}, {"9", "nancy"}})
	if ids := g.MissingOwners(); !slices.Equal(ids, []string{"NA", "nan", "null"}) {
		t.Errorf("ids %q", ids)
	}
	var right, swapped, flat, few [][2]string
	for i := range 400 {
		photo, user := fmt.Sprint("photo", i), fmt.Sprint("user", i*i%400/2*(i%2))
		right, swapped = append(right, [2]string{photo, user}), append(swapped, [2]string{user, photo})
		flat = append(flat, [2]string{fmt.Sprint(i / 2), photo})
	}
	for i := range 12 {
		few = append(few, [2]string{fmt.Sprint("user", i*i/20), fmt.Sprint("photo", i)})
	}
	for name, c := range map[string]struct {
		edges [][2]string
		want  bool
	}{"right": {right, false}, "swapped": {swapped, true}, "two owners each": {flat, false}, "swapped and small": {few, true}} {
		if s := graph(c.edges).Given(); s.LooksSwapped() != c.want {
			t.Errorf("%s: %t, at most %d owners of an example", name, !c.want, s.GivenOwners.Most())
		}
	}
}

// TestLookalikes counts ids that readers take for one.
func TestLookalikes(t *testing.T) {
	for _, c := range []struct {
		ids      []string
		count    int
		examples string // of which all are there
	}{
		{[]string{"ann", "bob", "ann1"}, 0, ""},
		{[]string{"Ann", "ann", "ANN", "bob"}, 3, "U+0061 against U+0041 as character 1 of 3"},
		{[]string{"José", "Jose\u0301", "Jose"}, 2, "U+0065 against U+00E9 as character 4 of 5"},
		{[]string{"a b", "ab", " ab ", "a\u00a0b", "b"}, 4, "of 3"},
		{[]string{"a\u200bb", "ab", "\ufeffab", "a\u200db"}, 4, "U+200B against U+0062"},
		{[]string{"Ａｎｎ", "ann", "\ufb01x", "fix", "fix\ufe0f", "Anna"}, 5, "U+0061 against U+FF21 as character 1 of 3"},
		{[]string{"'ann'", "ann", "O\u2019Neil", "O'Neil", "a\u2010b", "a-b", "a+b"}, 6, "U+002D against U+2010"},
		{[]string{"ΣΑΣ", "σας", "a\u034fb", "ab"}, 4, "character"},
		{[]string{"550E8400-E29B-41D4-A716-446655440000", "550e8400-e29b-41d4-a716-446655440000"}, 2, "U+0065 against U+0045 as character 4 of 36"},
	} {
		var ids IDs
		ids.Reset(String)
		for _, id := range c.ids {
			ids.AppendBytes([]byte(id))
		}
		count, examples := ids.Lookalikes()
		ids.Type = Bytes
		if inBytes, _ := ids.Lookalikes(); count != c.count || inBytes != count {
			t.Errorf("%q: %d, and in bytes %d", c.ids, count, inBytes)
		}
		if got := strings.Join(examples, ", or "); !strings.Contains(got, c.examples) || (got == "") != (count == 0) || len(examples) > 2 {
			t.Errorf("%q: examples %s", c.ids, got)
		}
		ids.AppendBytes([]byte{0xff})
		if count, _ := ids.Lookalikes(); count != 0 {
			t.Errorf("%q: bytes that are no text look alike", c.ids)
		}
	}
}
