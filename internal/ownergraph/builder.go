package ownergraph

import "sync"

// Builder collects edges for a [Graph] in memory: 16 bytes for an edge of integer ids, and more for
// strings. Batches may be added by several goroutines at once.
type Builder struct {
	mu               sync.Mutex
	example, owner   IDType
	examples, owners []IDs // columns of blockEdges ids at most, each pair of equal length
	edges            int
}

// NewBuilder returns a builder of a graph without edges, with ids of the given types.
func NewBuilder(example, owner IDType) *Builder { return &Builder{example: example, owner: owner} }

// blockEdges is the number of edges that a builder keeps together. Growing one column for all edges
// would copy it, and take up to three times its memory meanwhile.
const blockEdges = 1 << 16

// Add adds a copy of a batch. It returns [ErrTooLarge] for more than 2^32-2 edges in all.
func (b *Builder) Add(e *Edges) error {
	if err := e.check(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if uint64(b.edges+e.Len()) > maxEdges {
		return ErrTooLarge
	}
	b.edges += e.Len()
	last := len(b.examples) - 1
	if last < 0 || b.examples[last].Len()+e.Len() > blockEdges {
		b.examples, b.owners = append(
			b.examples,
			newIDs(b.example, blockEdges),
		), append(
			b.owners,
			newIDs(b.owner, blockEdges),
		)
		last++
	}
	b.examples[last].AppendAll(&e.Examples)
	b.owners[last].AppendAll(&e.Owners)
	return nil
}

// Graph returns the graph of the edges that were added, and empties the builder. The order in which
// they were added does not matter.
func (b *Builder) Graph() (*Graph, error) {
	examples, owners := b.examples, b.owners
	b.examples, b.owners, b.edges = nil, nil, 0
	return newGraph(b.example, examples, b.owner, owners)
}

// Drain calls f for the edges that were added, in batches, until f fails, and empties the builder.
// A batch is valid during the call only.
func (b *Builder) Drain(f func(*Edges) error) error {
	examples, owners := b.examples, b.owners
	b.examples, b.owners, b.edges = nil, nil, 0
	for i := range examples {
		if err := f(&Edges{examples[i], owners[i]}); err != nil {
			return err
		}
		examples[i], owners[i] = IDs{}, IDs{}
	}
	return nil
}
