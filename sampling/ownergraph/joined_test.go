package ownergraph

import "testing"

func TestJoinedOwners(t *testing.T) {
	for _, c := range []struct {
		owners []string
		count  int
	}{
		{[]string{"a", "b", "c"}, 0},
		{[]string{"a", "b", "a;b", "c|x", "x, a"}, 2}, // neither c nor x is one
		{[]string{"ann", `["ann","bob"]`, "bob"}, 1},
		{[]string{"Smith, Jane", "Smith, John", ";", "a;", "a"}, 1},
	} {
		var e Edges
		e.Reset(Int64, String)
		for i, owner := range c.owners {
			e.Examples.AppendInt(int64(i))
			e.Owners.AppendBytes([]byte(owner))
		}
		g, err := New(&e)
		if err != nil {
			t.Fatal(err)
		}
		if count := g.JoinedOwners(); count != c.count {
			t.Errorf("%q: %d", c.owners, count)
		}
		var scan JoinedScan
		if scan.Add(&e.Owners); scan.Found != (c.count > 0) {
			t.Errorf("%q: a scan finds them: %t", c.owners, scan.Found)
		}
	}
}
