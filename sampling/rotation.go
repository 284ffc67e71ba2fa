package sampling

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/param"
)

// Rotation lets the examples of one pool at a time take part, each exactly once, at a uniform step
// of the EpochSteps steps that the pool serves: a period (F3.12). The bounded table divides
// examples into pools ([minsep/internal/ownergraph.Pools]), with at most one example of an owner in
// each. Pool e modulo the number of pools serves period e.
//
// # Formal guarantees
//
// In each of the periods 0 … T-1, T … 2T-1, …, where T = EpochSteps, an owner takes part at most
// once, through its example in the period's pool; an example outside that pool does not take part.
// Places are uniform to 2^-64, and the places of different examples and periods are independent. In
// a period that the training does not finish, an example whose place is beyond the last step does
// not take part. Every step has participation rate exactly 1/T for each example of its pool.
// Participations in adjacent periods keep no distance.
type Rotation struct {
	Steps      int `json:"steps"`       // 1 to MaxSteps
	EpochSteps int `json:"epoch_steps"` // T, steps of a period, at least 1
}

var rotationKind = Kind{
	Name: "rotation",
	Help: `for examples of several owners: the pools that bound --pools made take turns of T
steps, in which each example of the pool takes part exactly once; --epoch-steps T,
or --batch-size X`,
	Pools: true,
	Takes: []string{"epoch-steps"},
	check: func(p Params, c *param.Checker) {
		c.Require(
			p.MinSep <= 1,
			"min-sep",
			p.MinSep,
			"must be left out for rotation: participations in adjacent periods keep no distance",
		)
		p.checkEpochs(c)
	},
	spec: func(p Params, of Population) (Spec, error) {
		s := EpochMinSep{Steps: p.Steps, MinSep: 1, EpochSteps: p.EpochSteps}
		var err error
		if p.EpochSteps == 0 {
			s, err = s.WithBatchSize(p.BatchSize, of.Examples)
		}
		return Spec{Rotation: &Rotation{Steps: s.Steps, EpochSteps: s.EpochSteps}}, err
	},
	examplesOnly: "is not for rotation: in a pool an owner has one example, which takes part for it",
	scheme:       func(s Spec) Scheme { return orNil(s.Rotation) },
}

// Name returns "rotation".
func (Rotation) Name() string { return "rotation" }

// NumSteps returns Steps.
func (s Rotation) NumSteps() int { return s.Steps }

// Separation returns 1: nothing is guaranteed between adjacent periods.
func (Rotation) Separation() int { return 1 }

// Periods is the number of periods that begin within the training, at least 1.
func (s Rotation) Periods() int { return (s.Steps + s.EpochSteps - 1) / s.EpochSteps }

// Validate returns every fault of the parameters, joined.
func (s Rotation) Validate() error {
	return s.asEpochMinSep().Validate()
}

// ExpectedBatchSize is examples / EpochSteps at every step, where examples is the size of one pool.
func (s Rotation) ExpectedBatchSize(examples int64) float64 {
	return float64(examples) / float64(s.EpochSteps)
}

// Process implements [Independent]. It is the process of an example in every pool; [Rotation.In]
// restricts it to some pools. Word e of the example's stream is its place in period e.
func (s Rotation) Process() Process { return s.asEpochMinSep().Process() }

// asEpochMinSep is the rotation as epochs whose participations keep no distance.
func (s Rotation) asEpochMinSep() EpochMinSep {
	return EpochMinSep{Steps: s.Steps, MinSep: 1, EpochSteps: s.EpochSteps}
}

// In keeps, in place, the steps in periods of the given pools of an example. pools must ascend;
// number is the number of all pools.
func (s Rotation) In(steps []int32, pools []uint32, number int) []int32 {
	kept := steps[:0]
	for _, t := range steps {
		if _, in := slices.BinarySearch(pools, uint32(s.PoolAt(int(t), number))); in {
			kept = append(kept, t)
		}
	}
	return kept
}

// PoolAt returns which of number pools serves a step.
func (s Rotation) PoolAt(step, number int) int { return step / s.EpochSteps % number }

// PoolMembers says which examples are in which pools.
type PoolMembers struct {
	Ends   []int    // by row: the end of its pools in Of; they begin at the end of the row before
	Of     []uint32 // pools of row 0, of row 1, …, each row's ascending
	Number int      // number of pools, at least 1
	Size   int64    // number of examples in each pool
}

// of returns the pools of a row.
func (m *PoolMembers) of(row int64) []uint32 {
	start := 0
	if row > 0 {
		start = m.Ends[row-1]
	}
	return m.Of[start:m.Ends[row]]
}

// rotationAudit checks the rules of a rotation.
type rotationAudit struct {
	spec    Rotation
	pools   *PoolMembers
	periods *epochCount
	owners  *Owners       // nil if they are not known
	seen    paged[uint32] // by row: 1 + the step of its last participation
	took    paged[uint32] // by owner: 1 + the period of its last participation
	// foreign counts rows outside the period's pool, and twice repeated participations of an owner.
	foreign, twice int64
	pairs, same    int64 // pairs of an example's places in consecutive periods of its own; the pairs of equal places
}

func newRotationAudit(spec Spec, of Audited) *rotationAudit {
	s := *spec.Rotation
	return &rotationAudit{
		spec:    s,
		pools:   of.Pools,
		periods: newEpochCount(s.Steps, s.EpochSteps, of.Pools.Size, spec.Truncation != nil),
		owners:  of.Owners,
		seen:    newPaged[uint32](),
		took:    newPaged[uint32](),
	}
}

// visit records a participation.
func (a *rotationAudit) visit(row int64, step int) {
	period := uint32(step/a.spec.EpochSteps) + 1
	if _, in := slices.BinarySearch(a.pools.of(row), uint32(a.spec.PoolAt(step, a.pools.Number))); !in {
		a.foreign++
		return
	}
	a.periods.visit(row, 1)
	last := a.seen.at(row)
	if before := int(*last) - 1; before >= 0 && before/a.spec.EpochSteps != step/a.spec.EpochSteps {
		a.pairs++
		if before%a.spec.EpochSteps == step%a.spec.EpochSteps {
			a.same++
		}
	}
	*last = uint32(step) + 1
	if a.owners == nil {
		return
	}
	for _, u := range a.owners.of(int32(row)) {
		if last := a.took.at(int64(u)); *last == period {
			a.twice++
		} else {
			*last = period
		}
	}
}

// places checks that an example's places in two periods are equal as often as by chance, which is
// with probability 1/T for each pair, independently.
func (a *rotationAudit) places() Check {
	prob := 1 / float64(a.spec.EpochSteps)
	off := deviation(float64(a.pairs)*prob*(1-prob), 1, falseAlarm)
	broken := int64(0)
	if math.Abs(float64(a.same)-float64(a.pairs)*prob) > off {
		broken = 1
	}
	return count(
		"places",
		fmt.Sprintf(
			"an example's places in its periods are equal as often as by chance (false alarm %g)",
			falseAlarm,
		),
		broken,
	)
}

func (a *rotationAudit) checks() []Check {
	checks := []Check{
		count(
			"pools of batches",
			fmt.Sprintf("the batches of a period are of its pool, of %d in turn", a.pools.Number),
			a.foreign,
		),
		count("periods", a.periods.rule("example of its pool", "period"), a.periods.broken),
	}
	if !a.periods.cut { // whether a batch is cut depends on the places
		checks = append(checks, a.places())
	}
	if a.owners != nil {
		checks = append(checks, count("owners in a period", "no owner takes part twice in a period", a.twice))
	}
	return checks
}
