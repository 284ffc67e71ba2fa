package accounting

import (
	"errors"
	"fmt"

	"minsep/internal/montecarlo"
)

// Tally is the sum of the samples of one trial. It is kept in integers, so that it does not depend
// on the order of addition.
type Tally struct {
	Candidate int            `json:"candidate"` // index into Protocol.Candidates
	Trial     int            `json:"trial"`     // index into its Trials
	Count     uint64         `json:"count"`     // number of samples; must be the trial's
	Sum       montecarlo.Sum `json:"sum"`       // of each value over the trial's Bound, rounded upward
}

// Verdict is the result of one trial.
type Verdict struct {
	Direction montecarlo.Direction `json:"direction"`         // P or Q
	Method    Method               `json:"method"`            // of the trial
	Bound     float64              `json:"bound"`             // M of the trial, at least 0
	Samples   uint64               `json:"samples,omitempty"` // 0 for a proof
	Mean      float64              `json:"mean,omitempty"`    // of the values, 0 to Bound, rounded upward
	Accept    float64              `json:"accept,omitempty"`  // the largest Mean that is accepted
	Accepted  bool                 `json:"accepted"`          // whether Mean is at most Accept; true for a proof
	// Truncation is the cost of a maximum batch size, which is added to the divergence that Mean or
	// Bound bounds. It is nil where these are of truncated batches already.
	Truncation *Truncated `json:"truncation,omitempty"`
}

// ErrNotVerified is wrapped by a NotVerifiedError.
var ErrNotVerified = errors.New("not verified")

// NotVerifiedError says that no candidate was accepted. It shows the results of the largest
// candidate, the one with the most noise.
type NotVerifiedError struct {
	Epsilon, Delta  float64   // of the first point
	NoiseMultiplier float64   // of the largest candidate
	Verdicts        []Verdict // both directions, at the first point

	// Next is the claim for a following protocol. Its Earlier holds the failure probabilities of
	// this protocol and of the ones before it.
	Next Claim
	// CPU is the approximate processor time of a sample on this machine, in seconds, or 0 if it is
	// not known. Release leaves it 0; callers that know it set it.
	CPU float64
}

func (e *NotVerifiedError) Error() string {
	s := fmt.Sprintf("not verified: (%g, %g)-DP at noise multiplier %g", e.Epsilon, e.Delta, e.NoiseMultiplier)
	for _, v := range e.Verdicts {
		if !v.Accepted {
			s += fmt.Sprintf(
				"; direction %s: mean %.4g of %d samples is above %.4g",
				v.Direction,
				v.Mean,
				v.Samples,
				v.Accept,
			)
		}
	}
	return s
}

func (e *NotVerifiedError) Unwrap() error { return ErrNotVerified }

// verdict judges one trial. A nil tally means that the trial was not run.
func (p *Protocol) verdict(t Trial, tally *Tally) (v Verdict, run bool, err error) {
	v = Verdict{
		Direction:  t.Direction,
		Method:     t.Method,
		Bound:      t.Bound,
		Samples:    t.Samples,
		Truncation: t.Truncation,
	}
	switch {
	case t.Samples == 0 && tally != nil:
		return v, false, fmt.Errorf("samples were given for a trial that takes none")
	case t.Samples == 0:
		v.Accepted = true
		return v, true, nil
	case tally == nil:
		return v, false, nil
	case tally.Count != t.Samples:
		return v, false, fmt.Errorf(
			"%d samples in a trial of %d: a verification is complete or not at all",
			tally.Count,
			t.Samples,
		)
	}
	v.Accept = p.accept(t)
	v.Mean = tally.Sum.Mean(tally.Count) * t.Bound
	v.Accepted = v.Mean <= v.Accept
	return v, true, nil
}

// Released is the result of a protocol.
type Released struct {
	Candidate int         // index into Protocol.Candidates
	Verdicts  [][]Verdict // of the candidate: for each point, both directions
	Certified []bool      // for each point; true for the first
}

// Release applies the rule of Algorithm 5. A trial that was not run counts as rejected; trials may
// be missing only below a candidate that was rejected or is itself missing. The error is a
// NotVerifiedError unless some candidate is verified at the first point.
func (p *Protocol) Release(tallies []Tally) (*Released, error) {
	byTrial := map[[2]int]*Tally{}
	for i, t := range tallies {
		key := [2]int{t.Candidate, t.Trial}
		if t.Candidate < 0 || t.Candidate >= len(p.Candidates) || t.Trial < 0 ||
			t.Trial >= len(p.Candidates[t.Candidate].Trials) {
			return nil, fmt.Errorf(
				"samples for candidate %d, trial %d: the protocol has no such trial",
				t.Candidate,
				t.Trial,
			)
		}
		if byTrial[key] != nil {
			return nil, fmt.Errorf("candidate %d, trial %d is listed twice", t.Candidate, t.Trial)
		}
		byTrial[key] = &tallies[i]
	}
	alive := make([]bool, len(p.Points)) // for each point: accepted at all candidates so far
	for i := range alive {
		alive[i] = true
	}
	var best *Released
	var rejected *NotVerifiedError
	for c := len(p.Candidates) - 1; c >= 0 && alive[0]; c-- {
		r := &Released{Candidate: c, Verdicts: make([][]Verdict, len(p.Points))}
		for i, t := range p.Candidates[c].Trials {
			v, run, err := p.verdict(t, byTrial[[2]int{c, i}])
			if err != nil {
				return nil, err
			}
			alive[t.Point] = alive[t.Point] && run && v.Accepted
			r.Verdicts[t.Point] = append(r.Verdicts[t.Point], v)
		}
		if !alive[0] {
			if rejected == nil {
				pt := p.Points[0]
				rejected = &NotVerifiedError{
					Epsilon:         pt.Epsilon,
					Delta:           pt.Delta,
					NoiseMultiplier: p.Candidates[c].NoiseMultiplier,
					Verdicts:        r.Verdicts[0],
					Next:            p.next(),
				}
			}
			break
		}
		r.Certified = append([]bool(nil), alive...)
		best = r
	}
	if best == nil {
		return nil, rejected
	}
	return best, nil
}
