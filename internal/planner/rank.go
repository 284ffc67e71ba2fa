package planner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
)

// behind reports whether b is behind a even with the errors of their estimates: by more than
// calibration.Apart standard errors.
func behind(a, b *Row) bool {
	return b.Relative-a.Relative > calibration.Apart*math.Hypot(a.StdErr, b.StdErr)
}

// rank orders the rows by their error, the refused last. Those that may be the first are estimated
// further, and the first in both directions.
func (p *planning) rank(ctx context.Context, rows []*Row) error {
	if len(rows) == 0 {
		return nil
	}
	order(rows)
	// contenders are those that are not behind the first.
	contenders := func() (list []*Row) {
		for _, row := range rows {
			if row.Refused == "" && !behind(rows[0], row) && len(list) < mostTied {
				list = append(list, row)
			}
		}
		return list
	}
	if list := contenders(); len(list) > 1 {
		for _, row := range list {
			// Each estimate may move the first row away from the rows that follow.
			if behind(list[0], row) {
				continue
			}
			p.say(row.Name())
			if err := p.refine(ctx, row); err != nil {
				return err
			}
		}
		order(rows)
	}
	// In the other direction a row may need more noise, and then another one is first.
	for tried := map[*Row]bool{}; rows[0].Refused == "" && rows[0].Noise.OneDirection && !tried[rows[0]]; order(rows) {
		for _, row := range rows[0].sharers() {
			tried[row] = true
		}
		if err := p.both(ctx, rows[0]); err != nil {
			return err
		}
	}
	if err := p.prefer(ctx, rows); err != nil {
		return err
	}
	number(rows)
	return nil
}

// prefer puts first the row that is preferred among those that cannot be told from the first and have
// little more noise by their estimates. A row that is tied only because its error is large does not
// come first. The row that is then first may be known less well than the one with the least noise, and
// have further rows beside it.
func (p *planning) prefer(ctx context.Context, rows []*Row) error {
	first, tried, passed := rows[0], map[*Row]bool{}, map[*Row]bool{}
	for rows[0].Refused == "" {
		passed[first] = true
		best := first
		for _, row := range rows {
			if row.Refused == "" && !passed[row] && !behind(first, row) && row.Relative <= calibration.Little*rows[0].Relative &&
				p.isPreferred(row, best) {
				best = row
			}
		}
		if best == first {
			break
		}
		first = best
		if !best.Noise.OneDirection || tried[best] {
			continue
		}
		// A row estimated in one direction is a lower bound only, and may fall behind once both are
		// looked at.
		tried[best] = true
		if err := p.both(ctx, best); err != nil {
			return err
		}
		order(rows)
		first = rows[0]
		clear(passed)
	}
	toFront(rows, slices.Index(rows, first))
	return nil
}

// isPreferred says whether a row is better than another one with as much noise: by more data; as a
// strategy that no estimate chose, whose closed form proves nothing; and for Adam by less noise of one
// step, since Adam divides by what it sees in single steps: of rows with as much noise in the models
// those with ten times DP-SGD's noise in a step trained worse than DP-SGD.
func (p *planning) isPreferred(row, other *Row) bool {
	chosen := func(row *Row) bool { return row.Strategy.Kind == mechanism.KindAmplified }
	switch {
	case row.Kept > sameData*other.Kept, other.Kept > sameData*row.Kept:
		return row.Kept > other.Kept
	case chosen(row) != chosen(other):
		return chosen(other)
	}
	return p.Workload.Optimizer == mechanism.Adam && row.step < other.step
}

// toFront moves row i before all others, whose order stays.
func toFront(rows []*Row, i int) {
	row := rows[i]
	copy(rows[1:i+1], rows[:i])
	rows[0] = row
}

// order sorts rows by their error, the refused last.
func order(rows []*Row) {
	slices.SortStableFunc(rows, func(a, b *Row) int {
		if (a.Refused == "") != (b.Refused == "") {
			// One of the two texts is empty, and stands first.
			return cmp.Compare(len(a.Refused), len(b.Refused))
		}
		return cmp.Or(cmp.Compare(a.Relative, b.Relative), cmp.Compare(b.Kept, a.Kept))
	})
}

// number gives ordered rows their ranks, and says which are tied with the first.
func number(rows []*Row) {
	for i, row := range rows {
		if row.Refused != "" {
			break
		}
		// In both directions: a row with a small error may be far ahead of a first row with a large one,
		// by a preference.
		row.Rank, row.Tied = i+1, i > 0 && !behind(rows[0], row) && !behind(row, rows[0])
	}
}

// both looks at the other direction of a row, which stays as it is if that takes too many samples.
func (p *planning) both(ctx context.Context, row *Row) error {
	p.say(row.Name() + ", the other direction")
	n, err := row.Noise.Both(ctx)
	if errors.Is(err, calibration.ErrTooExpensive) {
		return ctx.Err()
	}
	return p.renew(ctx, row, n, err)
}

// refine estimates the noise multiplier of a row further, if it is known less well than those of most
// rows. If that takes too many samples, the row stays as it is, perhaps tied.
func (p *planning) refine(ctx context.Context, row *Row) error {
	n, err := row.Noise.Refine(ctx, 1)
	return p.renew(ctx, row, n, err)
}

// renew gives another noise multiplier to a row and to the rows that share its noise multiplier.
func (p *planning) renew(ctx context.Context, row *Row, n calibration.Noise, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, calibration.ErrTooExpensive) && !errors.Is(err, calibration.ErrNoEstimate):
		return err
	}
	for _, one := range row.sharers() {
		if err != nil {
			one.Refused = err.Error()
			continue
		}
		one.Noise = n
		p.figures(one, p.make(ctx, one.Strategy).figures)
	}
	return nil
}
