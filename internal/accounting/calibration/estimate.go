package calibration

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"

	"minsep/internal/montecarlo/tilt"
	"minsep/internal/stream"
)

// estimate is one divergence at one noise multiplier, as samples show it.
type estimate struct {
	divergence
	x        float64 // ln σ
	tables   float64 // the largest work of its tables
	logBound float64 // ln M/δ
	samplers []sampler
	seconds  float64 // of processors that the samples took
	samples  uint64
	sum      float64 // of the values over M
	squares  float64 // of their squares
	largest  float64 // of them
}

// newEstimate is a divergence without samples, which logarithms are taken of over delta.
func newEstimate(d divergence, delta float64) *estimate {
	return &estimate{divergence: d, x: d.x(), tables: mostTables, logBound: math.Log(max(d.bound(), 1e-300) / delta)}
}

// begin makes the tables of an estimate.
func (s *search) begin(ctx context.Context, x, tables float64) (*estimate, error) {
	begun := clock(s.workers)
	defer func() { s.making = max(s.making, clock(s.workers)-begun) }()
	s.states += tables
	config := tilt.Config{Spec: s.Run.Loss(roundUp(math.Exp(x))), Epsilon: s.Epsilon, Direction: s.direction}
	d, err := s.divergence(ctx, config, tables)
	if err != nil {
		return nil, err
	}
	if s.Draws > 0 && d.proposal != nil {
		d.proposal.Draws = min(d.proposal.Draws, s.Draws)
	}
	l := newEstimate(d, s.Delta)
	l.x, l.tables = x, tables
	return l, nil
}

// divergence is [newDivergence], without tables that were too large at another noise multiplier.
func (s *search) divergence(ctx context.Context, c tilt.Config, tables float64) (divergence, error) {
	for _, l := range s.estimates {
		if l.proposal == nil && errors.Is(l.untilted, tilt.ErrStates) && tables <= l.tables {
			d := l.divergence
			d.Config = c
			return d, nil
		}
	}
	return newDivergence(ctx, c, tables)
}

// estimateOf is an estimate at a divergence whose size is not known, and the search that draws its samples;
// any delta serves.
func (d divergence) estimateOf(workers int, delta float64) (*search, *estimate) {
	l := newEstimate(d, delta)
	return &search{
		Claim:     Claim{Epsilon: d.Epsilon, Delta: delta},
		direction: d.Direction,
		workers:   workers,
		estimates: []*estimate{l},
	}, l
}

// isExact says whether the divergence is proven to be so far below δ that it gets no samples.
func (s *search) isExact(l *estimate) bool { return l.proof.bound <= Negligible*s.Delta }

// draw draws the samples of an estimate up to a total, Few by each worker at a time. The sums do not
// depend on the number of workers.
func (s *search) draw(ctx context.Context, l *estimate, total uint64) error {
	if l.samplers == nil {
		if err := s.makeSamplers(l); err != nil {
			return err
		}
	}
	begun := clock(s.workers)
	defer func() {
		took := clock(s.workers) - begun
		s.seconds, l.seconds = s.seconds+took, l.seconds+took
	}()
	sums := make([][3]float64, len(l.samplers))
	for l.samples < total {
		if err := ctx.Err(); err != nil {
			return err
		}
		var wait sync.WaitGroup
		next := l.samples
		for i, of := range l.samplers {
			first := min(total, next)
			next = min(total, first+Few)
			last := next
			wait.Go(func() { sums[i] = of.sums(l.divergence, first, last-first) })
		}
		wait.Wait()
		for _, of := range sums {
			l.sum, l.squares, l.largest = l.sum+of[0], l.squares+of[1], max(l.largest, of[2])
		}
		s.drawn += next - l.samples
		l.samples = next
	}
	return nil
}

// each is about how many seconds of processors a sample takes: as at the last estimate, whose tables are
// the finest; 0 if none was drawn.
func (s *search) each() float64 {
	for i := len(s.estimates) - 1; i >= 0; i-- {
		if l := s.estimates[i]; l.samples > 0 {
			return l.seconds / float64(l.samples)
		}
	}
	return 0
}

// makeSamplers makes one sampler a worker. Their key is public, and of no other purpose.
func (s *search) makeSamplers(l *estimate) error {
	config, err := json.Marshal(struct {
		Seed   uint64      `json:"seed"`
		Config tilt.Config `json:"config"`
	}{s.Seed, l.Config})
	if err != nil {
		return err
	}
	of, err := l.sampler(stream.PublicKey("estimate", config))
	if err != nil {
		return err
	}
	l.samplers = []sampler{of}
	for range max(1, s.workers) - 1 {
		l.samplers = append(l.samplers, of.fork())
	}
	return nil
}

// fork is an equal sampler for another goroutine.
func (s sampler) fork() sampler {
	if s.plain != nil {
		return sampler{plain: s.plain.Fork()}
	}
	return sampler{tilted: s.tilted.Fork()}
}

// sums are the sum of some values over M, of their squares, and the largest of them.
func (s sampler) sums(d divergence, first, count uint64) (sums [3]float64) {
	var buffer [Few]float64
	values, slack := buffer[:count], 0.0
	if s.plain != nil {
		s.plain.Values(values, d.Epsilon, first)
	} else {
		s.tilted.Values(values, first)
		slack = d.proposal.Slack
	}
	for _, y := range values {
		y = max(0, y/d.bound()-slack)
		sums = [3]float64{sums[0] + y, sums[1] + y*y, max(sums[2], y)}
	}
	return sums
}

// count is the number of equal values that would show as much as the values of an estimate: the square of
// their sum over the sum of their squares. The largest is added to the squares once more, for larger
// values that were not seen.
func (l *estimate) count() float64 {
	if l.sum == 0 {
		return 0
	}
	return l.sum * l.sum / (l.squares + l.largest*l.largest)
}

// isConclusive says whether the values of an estimate show more than a bound: they count as at least nine
// equal ones, which are Apart standard errors above 0, and are no rounding.
func (l *estimate) isConclusive() bool {
	return l.count() >= Apart*Apart && l.sum >= 1./(Apart*Apart)
}

// most is ln of an upper limit of the divergence over δ: Apart standard errors above the mean.
func (l *estimate) most() float64 {
	return l.logBound + math.Log((l.sum+Apart*(math.Sqrt(l.sum)+0.5))/float64(l.samples))
}

// mean is the mean of the values.
func (l *estimate) mean() float64 {
	if l.samples == 0 {
		return l.proof.bound
	}
	return l.sum / float64(l.samples) * l.bound()
}

// hits is the number of events of a Poisson variable that would show as much of the mean.
func (l *estimate) hits() float64 {
	n, sum, squares := float64(l.samples), l.sum, l.squares+l.largest*l.largest
	if !l.isConclusive() {
		sum, squares = max(sum, 1), max(squares, 1)
	}
	return n / max(1e-9, squares/(sum*sum)*n-1)
}

// stdErr is the standard error of ln of the mean. Its second term is for few values: their spread is
// all that is known of the error.
func (l *estimate) stdErr() float64 { return math.Sqrt((1 + 4/l.hits()) / l.hits()) }

// point is the estimate on the scale.
func (s *search) point(l *estimate) point {
	if s.isExact(l) {
		u := s.scale.inverse(math.Log(max(l.proof.bound/s.Delta, 1e-30)))
		return point{l.x, u, Rough / Apart}
	}
	ratio := l.logBound + math.Log(max(l.sum, 1e-300)/float64(l.samples))
	if !l.isConclusive() { // the values count as one of M at least
		ratio = l.logBound + math.Log(max(l.sum, 1)/float64(l.samples))
	}
	u := s.scale.inverse(ratio)
	return point{l.x, u, l.stdErr() / s.scale.steepness(u)}
}
