package ownergraph

import (
	"errors"
	"testing"
)

func TestBuilderRefuses(t *testing.T) {
	var e Edges
	e.Examples.AppendInt(1)
	b := NewBuilder(Int64, Int64)
	if err := b.Add(&e); err == nil {
		t.Error("an example without an owner was taken for an edge")
	}
	e.Owners.AppendInt(2)
	b.edges = maxEdges - 1
	if err := b.Add(&e); err != nil {
		t.Errorf("%d edges: %v", b.edges, err)
	}
	if err := b.Add(&e); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d edges and one more: %v", b.edges, err)
	}
}
