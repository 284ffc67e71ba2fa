package report

import (
	"fmt"
	"math"

	"minsep/internal/stream"
	"minsep/sampling"
)

// draws is the number of examples that are drawn for the distribution of a scheme.
const draws = 20_000

// leastDraws is the least number of examples for a distribution. If examples take part so often
// that these are too much work, there is no distribution.
const leastDraws = 100

// maxDrawn bounds the work of the draws, in expected participations.
const maxDrawn = 20_000_000

// Participations says how often an example takes part by the scheme, and how far apart. It is drawn
// with a public key, so that it tells nothing about any run.
type Participations struct {
	Draws int       // examples, or owners where owners are sampled, that were drawn: 100 to 20,000
	Times []float64 // Times[k] is the share, in [0, 1], of those that take part k times in the run
	Gaps  []float64 // Gaps[g] is the share, in [0, 1], of gaps of g steps between successive participations; empty without gaps
}

// participationsOf draws the distribution of a scheme with independent examples. It returns nil for
// other schemes, and if that is too much work.
func participationsOf(spec sampling.Spec) *Participations {
	s, ok := spec.Scheme().(sampling.Independent)
	if !ok {
		return nil
	}
	// The mean of one example's participations says how much work a draw is.
	table, err := sampling.TableOf(s)
	if err != nil {
		return nil
	}
	mean, _ := table.TotalMoments(1)
	count := draws
	if work := mean * draws; work > maxDrawn {
		count = int(maxDrawn / mean)
	}
	if count < leastDraws {
		return nil
	}
	l := &Participations{Draws: count}
	// The scheme is the input of the key, so that the same scheme has the same figure on every page.
	source := stream.NewSource(stream.PublicKey("report", []byte(fmt.Sprintf("%+v", s))))
	sampler := s.Process().Sampler(source)
	var steps []int32
	gaps := 0
	for i := range count {
		steps = sampler.Append(steps[:0], source.IntAddress(int64(i), 0), int64(i))
		l.Times = counted(l.Times, len(steps))
		for j := 1; j < len(steps); j++ {
			l.Gaps = counted(l.Gaps, int(steps[j]-steps[j-1]))
			gaps++
		}
	}
	for k := range l.Times {
		l.Times[k] /= float64(count)
	}
	for g := range l.Gaps {
		l.Gaps[g] /= float64(gaps)
	}
	return l
}

// counted adds 1 at an index of a list, which it lengthens if necessary.
func counted(list []float64, at int) []float64 {
	for len(list) <= at {
		list = append(list, 0)
	}
	list[at]++
	return list
}

// Band is the range in which a batch size lies at a step with a probability of at least Prob.
type Band struct {
	Low, High int64   // entries of a batch, both ends included, at least 0
	Prob      float64 // above 0, below 1
}

// bandProb is the probability that a batch keeps its band.
const bandProb = 0.999

// batchBand returns the band of Binom(copies, expected/copies): the batch size of schemes with
// independent examples of equal rates.
func batchBand(copies int64, expected float64) *Band {
	if copies < 1 || !(expected > 0) || expected >= float64(copies) {
		return nil
	}
	n, p := float64(copies), expected/float64(copies)
	lg := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	pmf := func(k float64) float64 {
		falling := lg(n+1) - lg(n-k+1) // ln n!/(n-k)!
		if n-k > 1e6 {                 // by Stirling's formula: the difference of two large numbers says nothing
			falling = k*math.Log(n) - (n-k+0.5)*math.Log1p(-k/n) - k
		}
		return math.Exp(falling - lg(k+1) + k*math.Log(p) + (n-k)*math.Log1p(-p))
	}
	// Beyond twelve standard deviations the tails are negligible beside the parts that are cut.
	wide := 12*math.Sqrt(n*p*(1-p)) + 12
	low, high := math.Max(0, math.Floor(expected-wide)), math.Min(n, math.Ceil(expected+wide))
	// Half of the rest is cut at each end, so that the band is not shifted.
	tail := (1 - bandProb) / 2
	for sum := 0.0; low < high; low++ {
		if sum += pmf(low); sum > tail {
			break
		}
	}
	for sum := 0.0; low < high; high-- {
		if sum += pmf(high); sum > tail {
			break
		}
	}
	return &Band{int64(low), int64(high), bandProb}
}
