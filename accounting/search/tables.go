package search

import (
	"errors"
	"fmt"
	"math"

	"minsep/accounting/montecarlo/tilt"
)

// firstWork is the work of the tables that are tried first, and how many samples take as long as
// finer ones.
func (s *searcher) firstWork(tolerance float64) (work, dear float64) {
	dear = dearSamples
	if s.Run.MaxExamplesPerOwner == 1 && s.Run.Sampler.BalancedMinSep == nil {
		dear *= 4
	}
	dear = max(Few, dear/s.width())
	switch {
	case tolerance < coarseError:
		return fineWork, 4 * dear
	case s.Run.MaxExamplesPerOwner == 2, s.Run.MaxExamplesPerOwner > 2 && s.Run.Sampler.EpochMinSep == nil:
		return ownersWork, dear // tables of epochs serve no owner of three and more
	}
	return coarseWork, dear
}

// lastWork is the work of the finest tables that are tried. With several examples per owner,
// the finest of all take longer than the samples that they save.
func (s *searcher) lastWork(tolerance float64) float64 {
	switch {
	case s.Run.MaxExamplesPerOwner == 1:
		return finestWork
	case s.Run.Sampler.BalancedMinSep != nil && tolerance >= coarseError:
		return coarseWork
	}
	return fineWork
}

// finerWork is the next of the works of tables.
func finerWork(work float64) float64 {
	switch {
	case work < coarseWork:
		return coarseWork
	case work < fineWork:
		return fineWork
	}
	return finestWork
}

// propose makes a proposal with tables of so much work.
func (s *searcher) propose(x, tolerance, work float64) (tilt.Proposal, tilt.Tables, error) {
	spec := s.Run.Loss(math.Exp(x))
	proposal, tables, err := tilt.NewProposalWithin(tilt.Config{Spec: spec, Epsilon: s.Epsilon, Direction: s.direction}, work)
	if errors.Is(err, tilt.ErrNotTilted) {
		err = fmt.Errorf("%w: %w", ErrNoEstimate, err)
	}
	if tolerance >= coarseError {
		proposal.Draws = min(proposal.Draws, coarseDraws)
	}
	return proposal, tables, err
}
