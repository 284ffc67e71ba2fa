package search

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/accounting/montecarlo/tilt"
)

// workOf is the most work of tables of a level, in states times steps.
func workOf(level int) float64 { return leastWork * math.Pow(dearer, float64(level)) }

// Levels of the work of tables: for owners of several examples, for a coarse estimate, for a fine
// one, and the finest that are tried.
const (
	ownersLevel = iota
	coarseLevel
	fineLevel
	finestLevel
)

// firstLevel returns the level of the tables that are tried first, and the number dear of samples
// that take as long as tables of the next level.
func (s *searcher) firstLevel(tolerance float64) (level int, dear float64) {
	dear = max(Few, DearSamples/s.width())
	switch {
	case tolerance < Tolerance:
		return fineLevel, dearer * dear
	case s.Run.MaxExamplesPerOwner == 2, s.Run.MaxExamplesPerOwner > 2 && s.Run.Sampler.EpochMinSep == nil:
		return ownersLevel, dear // tables of epochs serve no owner of three and more
	}
	return coarseLevel, dear
}

// lastLevel is the finest level that is tried. With several examples per owner, the finest of all
// take longer than the samples that they save.
func (s *searcher) lastLevel() int {
	if s.Run.MaxExamplesPerOwner == 1 {
		return finestLevel
	}
	return fineLevel
}

// propose makes a proposal with tables of at most this work.
func (s *searcher) propose(ctx context.Context, x, tolerance, work float64) (tilt.Proposal, tilt.Tables, error) {
	spec := s.Run.Loss(math.Exp(x))
	proposal, tables, err := tilt.NewProposalWithin(ctx, tilt.Config{Spec: spec, Epsilon: s.Epsilon, Direction: s.direction}, work)
	if errors.Is(err, tilt.ErrNotTilted) {
		err = fmt.Errorf("%w: %w", ErrNoEstimate, err)
	}
	if tolerance >= Tolerance {
		proposal.Draws = min(proposal.Draws, coarseDraws)
	}
	return proposal, tables, err
}
