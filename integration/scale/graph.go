package main

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/parquet-go/parquet-go"
)

// shape is a family of graphs of any size. Half of the edges of the first two, and nearly all of
// the hot ones, are of examples with two owners.
type shape struct {
	name, what string
	edges      func(n int64, add func(example, owner int64))
}

var shapes = []shape{
	{"uniform", "two owners per example, drawn at random, eight examples per owner", func(n int64, add func(example, owner int64)) {
		background(0, n, 2, uniform(n/8), add)
	}},
	{"power-law", "two owners per example; owner r of N owns about (N/r)^(2/3) · 8/3 examples", func(n int64, add func(example, owner int64)) {
		background(0, n, 2, powerLaw(n/8), add)
	}},
	{"crowded", "five owners per example; owner r of N owns about (N/r)^(2/3) · 64/3 examples", func(n int64, add func(example, owner int64)) {
		background(0, n, 5, powerLaw(n/64), add)
	}},
	{"hot-owner", "as uniform, and a third of the examples with two thirds of the edges, at most 1e7, have one owner in common", func(n int64, add func(example, owner int64)) {
		hot(min(10_000_000, n/3), n, add)
	}},
	{"wide-example", "as uniform, and one example more whose owners are a million, or half of the edges", func(n int64, add func(example, owner int64)) {
		w := min(1_000_000, n/2)
		background(0, n-w, 2, uniform(n/8), add)
		wide(w, add)
	}},
	{"hot-and-wide", "hot-owner and wide-example together", func(n int64, add func(example, owner int64)) {
		w := min(1_000_000, n/4)
		hot(min(10_000_000, n/3), n-w, add)
		wide(w, add)
	}},
}

// hot adds h examples of owner -1, each with another owner besides, and uniform ones up to n edges.
func hot(h, n int64, add func(example, owner int64)) {
	owner, rng := uniform(n/8), source()
	for e := range h {
		add(e, -1)
		add(e, owner(rng))
	}
	background(h, n-2*h, 2, owner, add)
}

// wide adds an example of w owners.
func wide(w int64, add func(example, owner int64)) {
	for u := range w {
		add(math.MaxInt64, u)
	}
}

func source() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func uniform(owners int64) func(*rand.Rand) int64 {
	return func(rng *rand.Rand) int64 { return rng.Int64N(max(1, owners)) }
}

func powerLaw(owners int64) func(*rand.Rand) int64 {
	return func(rng *rand.Rand) int64 { return int64(float64(max(1, owners)) * math.Pow(rng.Float64(), 3)) }
}

// background adds n edges of the examples from first on, each with width owners that owner draws.
func background(first, n, width int64, owner func(*rand.Rand) int64, add func(example, owner int64)) {
	rng := source()
	for i := range n {
		add(first+i/width, owner(rng))
	}
}

func shapeOf(name string) (shape, error) {
	for _, s := range shapes {
		if s.name == name {
			return s, nil
		}
	}
	return shape{}, fmt.Errorf("no shape %q", name)
}

type edge struct {
	Example int64 `parquet:"example_id"`
	Owner   int64 `parquet:"owner_id"`
}

// write writes the graph of about n edges as a Parquet edge list with row groups of 2^20 edges.
func (s shape) write(path string, n int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<20)
	w := parquet.NewGenericWriter[edge](out, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(1<<20))
	batch := make([]edge, 0, 1<<14)
	flush := func() {
		if err == nil {
			_, err = w.Write(batch)
		}
		batch = batch[:0]
	}
	s.edges(n, func(example, owner int64) {
		if batch = append(batch, edge{example, owner}); len(batch) == cap(batch) {
			flush()
		}
	})
	flush()
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = out.Flush()
	}
	return err
}
