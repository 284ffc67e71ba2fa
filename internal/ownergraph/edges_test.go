package ownergraph_test

import (
	"bytes"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"

	"pgregory.net/rapid"
)

func drawIDs(t *rapid.T, c *ownergraph.IDs, n int) {
	for range n {
		if c.Type == ownergraph.Int64 {
			c.AppendInt(rapid.Int64().Draw(t, "id"))
		} else {
			c.AppendBytes(rapid.SliceOfN(rapid.Byte(), 0, stream.MaxStringID).Draw(t, "id"))
		}
	}
}

func TestEdgesComeBack(t *testing.T) {
	var back ownergraph.Edges // reused: nothing of an earlier batch may stay
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SampledFrom([]ownergraph.IDType{ownergraph.Int64, ownergraph.String})
		var e ownergraph.Edges
		e.Reset(types.Draw(t, "examples"), types.Draw(t, "owners"))
		n := rapid.IntRange(0, 5).Draw(t, "edges")
		drawIDs(t, &e.Examples, n)
		drawIDs(t, &e.Owners, n)
		b, err := e.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if rest, err := back.Decode(append(b, 7)); err != nil || len(rest) != 1 {
			t.Fatalf("%d bytes are left: %v", len(rest), err)
		}
		if back.Len() != n || back.Examples.Type != e.Examples.Type || back.Owners.Type != e.Owners.Type {
			t.Fatalf("%d edges came back as %d", n, back.Len())
		}
		for i := range n {
			if back.Examples.Compare(i, &e.Examples, i) != 0 || back.Owners.Compare(i, &e.Owners, i) != 0 {
				t.Fatalf("edge %d came back changed", i)
			}
		}
		if _, err := back.Decode(b[:len(b)-1]); err == nil {
			t.Fatal("a truncated batch was read")
		}
	})
}

func TestUnequalColumnsAreNoEdges(t *testing.T) {
	var e ownergraph.Edges
	e.Examples.AppendInt(1)
	if _, err := e.AppendBinary(nil); err == nil {
		t.Error("an example without an owner was written as an edge")
	}
}

func FuzzEdges(f *testing.F) {
	var e ownergraph.Edges
	e.Reset(ownergraph.String, ownergraph.Int64)
	e.Examples.AppendBytes([]byte("a"))
	e.Owners.AppendInt(-1)
	b, _ := e.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var e ownergraph.Edges
		if _, err := e.Decode(b); err != nil {
			return
		}
		again := must.Get(e.AppendBinary(nil))(t)
		var back ownergraph.Edges
		if _, err := back.Decode(again); err != nil || back.Len() != e.Len() {
			t.Errorf("%x was read as %d edges and then %d: %v", b, e.Len(), back.Len(), err)
		}
		if third, _ := back.AppendBinary(nil); !bytes.Equal(third, again) {
			t.Errorf("%x is not written the same twice", b)
		}
	})
}
