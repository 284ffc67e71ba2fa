// Package sampling decides which examples take part in which training step: [Params.Spec] makes a
// scheme from a batch size or a probability, and [Law.Tabulate] one of your own.
//
// A scheme is a plain struct of public parameters: [BMinSep], [EpochMinSep],
// [Poisson], [BallsInBins], [CyclicPoisson], [MultiOwner], [Fixed] and [Rotation], with
// [Truncation] after it. Its Validate reports every fault, its doc comment says under "Formal
// guarantees" which guarantees its batches have, and JSON holds it word for word in a manifest
// and a certificate. [Spec] holds one of them, and [Kinds] lists them. [Params] hold the users'
// parameters, a batch size for example; [Params.Spec] makes the scheme that is run from them:
//
//	p := sampling.Params{Scheme: "b-min-sep", Steps: 1000, MinSep: 16, BatchSize: 128}
//	spec, err := p.Spec(sampling.Population{Examples: 50000})
//
// In the schemes that are [Independent], each copy of an example draws its own participations from
// random words of its own. Any part of a result can therefore be made again on its own, in any
// order, on any machine. Package transforms takes the words from a secret key; a simulation may take
// any others:
//
//	process := scheme.Process() // tables, shared
//	steps = process.Draw(steps[:0], rand.NewPCG(1, 2), row)
//
// Participation is decided with integers only: a 64-bit word is compared with thresholds that are
// computed once from the probability, with more than 64 exact bits. So a probability is met to 2^-64,
// and the result is the same on every processor.
//
// A [Law] says in one to ten lines how one example takes part, and a [Table] is a law as integers, for
// a run of a number of steps.
//
// # A new scheme
//
// A new scheme touches these places, and tests name the missing ones:
//
//   - here, a file with its struct, guarantees, [Kind] and [Process], and its [Law], from which
//     moments, losses and proofs follow; in spec.go a field of [Spec] and an entry of [Kinds]; and, for a parameter that no other scheme has, a field of [Params]
//     with its tags;
//   - package accounting, in scheme.go, its method, or the reason of its refusal, and its events;
//   - package formation, only if its examples depend on each other;
//   - docs: docs/schemes.md, docs/schemas, and docs/formulas.md and
//     docs/accounting.md for a new analysis.
//
// Flags, plans, their checks and help, manifests, inspection and certificates follow from these.
//
// Labels of formulas (F3.2, …) refer to docs/formulas.md. Steps are 0-based here; the papers
// count from 1. Batches, batch sizes and masks are secret for every scheme: the accounting lets
// an adversary know all other coins, and then a size reveals a participation.
//
// Stability: stable.
package sampling

import (
	"fmt"
	"math"
	"strconv"

	"minsep/internal/param"
)

// MaxSteps is the largest number of steps of a scheme.
const MaxSteps = 1 << 24

// Scheme is a sampling scheme with its public parameters.
type Scheme interface {
	Name() string    // as on the command line
	NumSteps() int   // n, the number of training steps
	Separation() int // least distance in steps of two participations that the scheme guarantees
	Validate() error // every fault, joined
}

// Independent is a scheme in which the copies of examples draw independently of each other.
type Independent interface {
	Scheme
	// Process returns the process that one copy of an example follows. The scheme must be valid.
	Process() Process
	// ExpectedBatchSize is the expected batch size once the scheme is stationary.
	ExpectedBatchSize(examples int64) float64
}

// Process is the random process that one copy of an example follows. It consists of tables without
// randomness, and may be shared.
type Process interface {
	// Draw appends to dst, in ascending order, the steps in which a copy of an example takes part,
	// as the words decide. row is the example's row in the table; only a public partition uses it.
	// Draw allocates nothing if dst has room.
	Draw(dst []int32, words Words, row int64) []int32
}

// Words gives independent uniform words, as math/rand/v2's sources do. Batches of a training need
// words that nobody can guess.
type Words interface{ Uint64() uint64 }

// InfeasibleError is a batch size that a scheme cannot reach with the given examples.
type InfeasibleError struct {
	Largest float64 // the largest batch size that is feasible, in examples

	fault *param.Error // the parameter and its rule
}

func (e *InfeasibleError) Error() string { return e.fault.Error() }
func (e *InfeasibleError) Unwrap() error { return e.fault }

func infeasible(batch, largest float64, why string) error {
	const rule = "must be at most %s, the largest feasible: %s"
	return &InfeasibleError{largest, param.Fault("batch size", batch, rule, roundedDown(largest), why)}
}

// roundedDown writes a size with at most six decimals, rounded down so that it stays feasible.
func roundedDown(size float64) string {
	return strconv.FormatFloat(math.Floor(size*1e6)/1e6, 'f', -1, 64)
}

func checkSteps(c *param.Checker, steps, minSep int) {
	c.Require(steps >= 1 && steps <= MaxSteps, "steps", steps, fmt.Sprintf("must be from 1 to %d", MaxSteps))
	c.Require(minSep >= 1 && minSep <= MaxSteps, "min-sep", minSep, fmt.Sprintf("must be from 1 to %d", MaxSteps))
}

// checkBatch checks the facts from which a probability is computed.
func checkBatch(batch float64, examples int64) error {
	c := param.Checker{}
	c.Positive("batch size", batch)
	c.Require(examples >= 1, "examples", examples, "must be at least 1")
	return c.Err()
}
