package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"minsep/mechanism"
)

// sensitivityTopics compare the sensitivity of given strategies. Where a bound is asked for,
// minsep's may be smaller and not below the largest of all participations, which the peer's script
// enumerates where there are few steps: its second number, or 0.
func sensitivityTopics() []topic {
	apart := func(r *rand.Rand, q *question, most int) {
		q.Steps = 2 + r.IntN(most)
		q.MinSep, q.Max = 1+r.IntN(q.Steps), r.IntN(5)
	}
	judge := func(q question, theirs []float64) (answer, error) {
		s := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: q.Steps, Toeplitz: q.Column}
		p := mechanism.Participation{MinSep: q.MinSep, MaxParticipations: q.Max}
		if q.Matrix != nil {
			s.Kind, s.Toeplitz = mechanism.KindDense, nil
			for j := range q.Matrix {
				var column []float64
				for i := j; i < q.Steps; i++ {
					column = append(column, q.Matrix[i][j])
				}
				s.Columns = append(s.Columns, column)
			}
		}
		p.Phases = q.Kind == "sensitivity-phases"
		if p.Phases {
			p.MaxParticipations = 0
		}
		found, err := s.Sensitivity(p)
		a := answer{ratio: found.Value / theirs[0]}
		switch {
		case err != nil:
		case found.Value > theirs[0]*(1+1e-9):
			a.wrong = fmt.Sprintf("%.12g by %s, the peer has %.12g", found.Value, found.Method, theirs[0])
		case found.Value < theirs[1]*(1-1e-9), found.Exact && theirs[1] > 0 && found.Value > theirs[1]*(1+1e-9):
			a.wrong = fmt.Sprintf("%.12g by %s, the truth is %.12g", found.Value, found.Method, theirs[1])
		}
		return a, err
	}
	dense := func(r *rand.Rand, q *question, bands int) {
		q.Matrix = make([][]float64, q.Steps)
		for i := range q.Matrix {
			q.Matrix[i] = make([]float64, q.Steps)
			for j := max(0, i-bands+1); j < i; j++ {
				q.Matrix[i][j] = r.NormFloat64()
			}
			q.Matrix[i][i] = 0.1 + r.Float64()
		}
	}
	rule := "not above the peer's, not below the truth of small cases"
	return []topic{
		{"sensitivity-toeplitz", "sensitivity, Toeplitz, falling columns", rule, 60, func(r *rand.Rand, q *question) {
			apart(r, q, 24)
			q.Column = falling(r, 1+r.IntN(q.Steps))
		}, judge},
		{"sensitivity-banded", "sensitivity, at most min-sep bands, any sign", rule, 40, func(r *rand.Rand, q *question) {
			apart(r, q, 24)
			dense(r, q, 1+r.IntN(q.MinSep))
		}, judge},
		{"sensitivity-any", "sensitivity, any lower triangular matrix", rule, 40, func(r *rand.Rand, q *question) {
			apart(r, q, 14)
			dense(r, q, q.Steps)
		}, judge},
		{"sensitivity-phases", "sensitivity, epochs in a fixed order", rule, 40, func(r *rand.Rand, q *question) {
			q.MinSep, q.Size = 1+r.IntN(6), 1+r.IntN(5)
			q.Steps = q.MinSep * q.Size
			dense(r, q, q.Steps)
		}, judge},
	}
}

// strategyTopics compare the best strategies that both sides find, by the loss that minsep has for
// each: squared error times squared sensitivity.
func strategyTopics() []topic {
	all := sensitivityTopics()
	for _, s := range []struct {
		kind, name string
		count      int
		most       float64 // the largest ratio of minsep's loss to the peer's: where the family is another one
		ask        func(r *rand.Rand, q *question)
	}{
		{mechanism.KindBandedToeplitz, "loss of the best banded Toeplitz strategy, mean and largest error", 8, 1 + 1e-6, func(r *rand.Rand, q *question) {
			q.Size = 1 + r.IntN(min(16, q.Steps))
		}},
		{mechanism.KindBanded, "loss of the best strategy with columns of norm one", 5, 1 + 1e-6, func(r *rand.Rand, q *question) {
			q.Size, q.Error = 1+r.IntN(min(8, q.Steps)), mechanism.MeanError
		}},
		{mechanism.KindBandInv, "loss of the best banded inverse, several participations", 8, 1 + 1e-6, func(r *rand.Rand, q *question) {
			q.Size, q.MinSep, q.Max = 1+r.IntN(min(8, q.Steps)), 1+r.IntN(q.Steps), r.IntN(5)
		}},
		{mechanism.KindBLT, "loss of the best BLT, several participations", 8, 1 + 1e-4, func(r *rand.Rand, q *question) {
			q.Size, q.MinSep, q.Max = 1+r.IntN(3), 1+r.IntN(q.Steps), 1+r.IntN(4)
		}},
		{mechanism.KindDense, "loss of the best matrix for epochs in a fixed order", 5, 1 + 1e-4, func(r *rand.Rand, q *question) {
			q.MinSep, q.Size, q.Error = 2+r.IntN(8), 1+r.IntN(4), mechanism.MeanError
			q.Steps = q.MinSep * q.Size
		}},
	} {
		all = append(all, topic{"best-" + s.kind, s.name, fmt.Sprintf("at most %.6g of the peer's", s.most), s.count, func(r *rand.Rand, q *question) {
			q.Steps, q.Error = 8+r.IntN(56), []string{mechanism.MeanError, mechanism.MaxError}[r.IntN(2)]
			s.ask(r, q)
		}, func(q question, theirs []float64) (answer, error) {
			p := q.prefix()
			p.Participation.Phases = s.kind == mechanism.KindDense
			mine, err := p.Make(s.kind, q.Size)
			if err != nil {
				return answer{}, err
			}
			peer := &mechanism.Strategy{Kind: s.kind, Steps: q.Steps}
			switch s.kind {
			case mechanism.KindBandedToeplitz:
				peer.Toeplitz = theirs
			case mechanism.KindBandInv:
				peer.InverseToeplitz = theirs
			case mechanism.KindBLT:
				half := len(theirs) / 2
				peer.BLT = &mechanism.BLT{Scales: theirs[:half], Decays: theirs[half:]}
			default: // columns from the diagonal down
				for j := range q.Steps {
					peer.Columns, theirs = append(peer.Columns, theirs[:q.Steps-j]), theirs[q.Steps-j:]
				}
			}
			loss, err := p.Loss(mine)
			if err != nil {
				return answer{}, err
			}
			other, err := p.Loss(peer)
			a := answer{ratio: loss / other}
			if a.ratio > s.most || math.IsNaN(a.ratio) {
				a.wrong = fmt.Sprintf("a loss of %.9g, the peer's has %.9g", loss, other)
			}
			return a, err
		}})
	}
	return all
}
