package ownergraph

import (
	"fmt"
	"slices"
)

// Edges is a batch of edges of an example–owner graph: owner i of Owners owns example i of
// Examples. The columns are of equal length, and each has its own type. An edge may occur more than
// once.
type Edges struct {
	Examples, Owners IDs // of equal length
}

// Len returns the number of edges.
func (e *Edges) Len() int { return e.Examples.Len() }

// Reset empties the batch, keeps its memory, and sets the types of its columns.
func (e *Edges) Reset(example, owner IDType) {
	e.Examples.Reset(example)
	e.Owners.Reset(owner)
}

// AppendFrom adds edge i of another batch of the same types.
func (e *Edges) AppendFrom(o *Edges, i int) {
	e.Examples.AppendFrom(&o.Examples, i)
	e.Owners.AppendFrom(&o.Owners, i)
}

// check returns an error if the columns are not of equal length.
func (e *Edges) check() error {
	if e.Examples.Len() != e.Owners.Len() {
		return fmt.Errorf("%d examples and %d owners: edges have one of each", e.Examples.Len(), e.Owners.Len())
	}
	return nil
}

// AppendBinary appends the batch to b, in the form that [Edges.Decode] reads. A batch of about 64 KiB
// travels well between workers.
func (e *Edges) AppendBinary(b []byte) ([]byte, error) {
	if err := e.check(); err != nil {
		return b, err
	}
	b = slices.Grow(b, e.Examples.encodedBytes()+e.Owners.encodedBytes())
	return e.Owners.AppendBinary(e.Examples.AppendBinary(b)), nil
}

// Decode replaces the batch, types included, with the output of AppendBinary at the start of b, and
// returns the rest of b. It keeps no reference to b.
func (e *Edges) Decode(b []byte) ([]byte, error) {
	b, err := e.Examples.Decode(b)
	if err == nil {
		b, err = e.Owners.Decode(b)
	}
	if err == nil {
		err = e.check()
	}
	return b, err
}
