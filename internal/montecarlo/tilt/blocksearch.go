package tilt

import (
	"context"
	"fmt"
	"math"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
)

// blockSearch looks for the order and the length of blocks with the least M.
type blockSearch struct {
	spec    montecarlo.Spec
	columns *likelihood.Columns
	epsilon float64
	family  lawFamily
	most    float64 // multiplications of a table, at most

	moment    Moment
	bound     float64 // M of moment, +Inf before there is one
	walkError float64
}

// try computes M of an order and a length and reports whether it is the least so far.
func (b *blockSearch) try(ctx context.Context, order, size int) (better bool) {
	if ctx.Err() != nil || order > maxBlockOrder || b.family.blockWork(b.spec, order, size) > b.most {
		return false
	}
	k := b.spec.ExamplesPerOwner()
	// unit is M/N. The limit of ln N is 5 above the largest useful value, at which M is the smaller of
	// b.bound and 1.
	unit := Moment{Order: order}.bound(b.epsilon, k)
	s, err := newBlockSource(
		ctx,
		b.family,
		b.spec,
		b.columns,
		order,
		size,
		false,
		5+math.Log(min(b.bound, 1)/unit),
	)
	if err != nil {
		return false
	}
	m := Moment{Order: order, LogN: s.logN(), Block: size, Tables: s.version}
	if bound := m.bound(b.epsilon, k); bound < b.bound {
		b.moment, b.bound, b.walkError = m, bound, s.walkError
		return true
	}
	return false
}

// run tries lengths from the longest down, each with the orders around the best so far. M falls
// with the order and rises again; shorter blocks have higher best orders, and take more work.
func (b *blockSearch) run(ctx context.Context, least int) {
	for _, size := range b.family.blockSizes(b.spec) {
		if ctx.Err() != nil {
			return
		}
		order := least
		if b.moment.Order > 0 {
			order = b.moment.Order
		}
		if b.family.blockWork(b.spec, order, size) > b.most {
			if b.moment.Order == 0 {
				continue // longer blocks, or no order, would do
			}
			break
		}
		before := b.bound
		found := b.try(ctx, order, size)
		for step := max(1, order/4); step >= 1; step /= 2 {
			for b.try(ctx, b.from(order)+step, size) {
				found = true
			}
		}
		if found && b.moment.Block == size {
			for b.moment.Order-1 >= least && b.try(ctx, b.moment.Order-1, size) {
			}
		}
		if b.moment.Order > 0 && b.bound > 0.97*before { // while none is found, shorter blocks may do
			break
		}
	}
}

// from is the best order so far, or the first one that is tried.
func (b *blockSearch) from(order int) int {
	if b.moment.Order > 0 {
		return b.moment.Order
	}
	return order
}

// newBlockSource makes a table in blocks of a size, unless ln N is above most.
func newBlockSource(
	ctx context.Context,
	f lawFamily,
	s montecarlo.Spec,
	columns *likelihood.Columns,
	order, size int,
	keep bool,
	most float64,
) (*source, error) {
	if size < 1 || size > s.MinSep() || order > maxBlockOrder {
		return nil, fmt.Errorf(
			"%w: order %d in blocks of %d steps at min-sep %d",
			ErrTable,
			order,
			size,
			s.MinSep(),
		)
	}
	o := tuples.Options{
		Keep:     keep,
		Block:    size,
		MaxBytes: maxBlockBytes,
		MostLogN: most,
	}
	return newTableSource(ctx, f.law, columns, s.Factor(), order, o)
}
