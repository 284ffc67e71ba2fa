package sampling

import (
	"fmt"
	"math"
	"math/big"

	"minsep/internal/param"
)

// EpochMinSep lets each example take part exactly once in every epoch of EpochSteps steps, at a
// fresh place that is at least MinSep steps after its last one (F3.8).
//
// # Formal guarantees
//
// Two participations of one copy of an example are at least MinSep steps apart, and there is
// exactly one in each of the epochs 0 … T-1, T … 2T-1, …, where T = EpochSteps; in an epoch that
// the training does not finish there is at most one. Every step has participation rate exactly 1/T,
// to 2^-64; this includes the first step and the steps around the ends of epochs. Copies and
// examples are independent of each other. MinSep = EpochSteps is [BallsInBins]; with EpochSteps ≥
// Steps an example takes part at most once.
type EpochMinSep struct {
	Steps      int `json:"steps"`       // 1 to MaxSteps
	MinSep     int `json:"min_sep"`     // least distance in steps of two participations, 1 to MaxSteps
	EpochSteps int `json:"epoch_steps"` // T, at least MinSep
}

// maxEpoch is the largest number of steps of an epoch. An epoch may be longer than the training.
const maxEpoch = math.MaxInt32

// maxMoved is the largest relative change of a batch size, by rounding the epoch to whole steps,
// that is made without asking.
const maxMoved = 0.05

var epochMinSepKind = Kind{
	Name: "epoch-min-sep",
	Help: `each example exactly once in every epoch of T steps, at a new random step in each
epoch, at least B steps after the last one; --epoch-steps T, or --batch-size X for
the T nearest to examples / X`,
	Takes: []string{"epoch-steps"},
	check: func(p Params, c *param.Checker) {
		c.AtLeast("min-sep", p.MinSep, 1)
		p.checkEpochs(c)
	},
	spec: func(p Params, of Population) (Spec, error) {
		s, err := EpochMinSep{Steps: p.Steps, MinSep: p.MinSep, EpochSteps: p.EpochSteps}, error(nil)
		if p.EpochSteps == 0 {
			s, err = s.WithBatchSize(p.BatchSize, of.Examples)
		}
		return Spec{EpochMinSep: &s}, err
	},
	scheme: func(s Spec) Scheme { return orNil(s.EpochMinSep) },
}

// checkEpochs requires a batch size or the steps of an epoch, and no probability.
func (p Params) checkEpochs(c *param.Checker) {
	const rule = "must be left out for %s: the steps of an epoch (epoch-steps) give the batch size"
	c.Requiref(p.Prob == 0, "prob", p.Prob, rule, p.Scheme)
	given := (p.BatchSize != 0) != (p.EpochSteps != 0)
	c.Require(given, "batch size and epoch steps", nil, "exactly one of them must be given for "+p.Scheme)
	if p.BatchSize != 0 {
		c.Positive("batch size", p.BatchSize)
	}
	if p.EpochSteps != 0 {
		checkEpoch(c, p.EpochSteps, p.MinSep)
	}
}

func checkEpoch(c *param.Checker, epoch, minSep int) {
	c.Requiref(epoch >= max(1, minSep) && epoch <= maxEpoch, "epoch steps", epoch,
		"must be at least min-sep, %d, and at most %d", minSep, maxEpoch)
}

// Name returns "epoch-min-sep".
func (EpochMinSep) Name() string { return "epoch-min-sep" }

// NumSteps returns Steps.
func (s EpochMinSep) NumSteps() int { return s.Steps }

// Separation returns MinSep.
func (s EpochMinSep) Separation() int { return s.MinSep }

// Validate returns every fault of the parameters, joined.
func (s EpochMinSep) Validate() error {
	c := param.Checker{}
	checkSteps(&c, s.Steps, s.MinSep)
	checkEpoch(&c, s.EpochSteps, s.MinSep)
	checkPlaces(&c, s.Steps, s.EpochSteps)
	return c.Err()
}

// checkPlaces checks that the table of a scheme whose choices differ between the places of an epoch is
// not too large.
func checkPlaces(c *param.Checker, steps, epoch int) {
	c.Requiref(min(steps, epoch) <= MaxTableChoices, "epoch steps", epoch,
		"must be at most %d in a run of more steps", MaxTableChoices)
}

// ExpectedBatchSize is examples / EpochSteps, at every step.
func (s EpochMinSep) ExpectedBatchSize(examples int64) float64 {
	return float64(examples) / float64(s.EpochSteps)
}

// WithBatchSize returns the scheme with the epoch nearest to examples / batch. The expected batch
// size is then examples / epoch. If it is more than 5 % from batch, the error names the two nearest
// sizes. An epoch shorter than MinSep is an [InfeasibleError].
func (s EpochMinSep) WithBatchSize(batch float64, examples int64) (EpochMinSep, error) {
	if err := checkBatch(batch, examples); err != nil {
		return s, err
	}
	d := float64(examples)
	epoch := math.Round(d / batch)
	if epoch < float64(s.MinSep) {
		return s, infeasible(
			batch,
			d/float64(s.MinSep),
			fmt.Sprintf("examples / min-sep = %d / %d", examples, s.MinSep),
		)
	}
	c := param.Checker{}
	c.Requiref(
		epoch <= maxEpoch,
		"batch size",
		batch,
		"must be at least %.6g: an epoch has at most %d steps", d/maxEpoch, maxEpoch,
	)
	if got := d / epoch; math.Abs(got-batch) > maxMoved*batch {
		const rule = "would become %.6g, more than 5 %% from it: an epoch has whole steps, and examples / batch size is %.6g; give epoch-steps %d for that size, or %s"
		c.Requiref(
			false,
			"batch size",
			batch,
			rule, got, d/batch, int(epoch), s.neighbour(batch, examples, int(epoch)),
		)
	}
	if err := c.Err(); err != nil {
		return s, err
	}
	s.EpochSteps = int(epoch)
	return s, s.Validate()
}

// neighbour describes the epoch with a batch size on the other side of the wanted one.
func (s EpochMinSep) neighbour(batch float64, examples int64, epoch int) string {
	other := epoch + 1
	if float64(examples)/float64(epoch) < batch && epoch-1 >= s.MinSep {
		other = epoch - 1
	}
	return fmt.Sprintf("%d for %.6g", other, float64(examples)/float64(other))
}

// Process implements [Independent].
func (s EpochMinSep) Process() Process {
	e := &epochs{EpochMinSep: s, tail: s.EpochSteps - s.MinSep + 1}
	if s.MinSep > 1 {
		stay := newFloat(0).Quo(newFloat(float64(e.tail-1)), newFloat(float64(e.tail)))
		survival := newFloat(1)
		e.head = newWaitingTime(s.MinSep-1, func(int) *big.Float { return survival.Mul(survival, stay) })
	}
	return e
}

// epochs is the process of an EpochMinSep.
//
// The places of an example in its epochs are a Markov chain, each uniform on 0 … T-1 (F3.8), so the
// first place is drawn uniformly. After place t, the example is free from place max(0, t+b-T) of
// the next epoch on. A free example takes each place v < b-1 that comes up with probability
// 1/(T-b+1); if it takes none of them, it takes one of the T-b+1 places from b-1 on with equal
// probabilities.
type epochs struct {
	EpochMinSep
	tail int          // number of places from b-1 on
	head *waitingTime // Pr[wait > t] = (1-1/tail)^(t+1) for t < b-1; nil for b = 1
}

// Draw implements [Process].
func (e *epochs) Draw(dst []int32, words Words, _ int64) []int32 {
	place := below(words, e.EpochSteps)
	for epoch := 0; epoch+place < e.Steps; epoch += e.EpochSteps {
		dst = append(dst, int32(epoch+place))
		place = e.next(place, words)
	}
	return dst
}

// next draws the place in the next epoch.
func (e *epochs) next(place int, words Words) int {
	free := max(0, place+e.MinSep-e.EpochSteps)
	if free < e.MinSep-1 {
		if place = free + e.head.wait(words.Uint64()); place < e.MinSep-1 {
			return place
		}
	}
	return e.MinSep - 1 + below(words, e.tail)
}
