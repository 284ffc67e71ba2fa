// Package contribution bounds, with Beam, how many examples an owner contributes to a run.
//
// # Behavior
//
// [Bound] gives the same result, bit for bit, as the sequential greedy pass of
// [ownergraph.Bound], for any number of buckets and workers, order of the edges, and retries.
//
// Examples get numbers in the order of their priority: a bucket is a range of priorities, and a
// number is the bucket and the place in it. The turn of an example in the sequential pass is
// its number, behind the class of its owners where examples with the fewest owners come first.
// From then on only turns, numbers and rooms travel. In a round each owner looks at its
// undecided examples in the order of their turns and says of each how many more copies it may
// take whatever the others do, or that it is full; an example takes the least number that its
// owners allow, is dropped when one is full, and otherwise waits. Both answers are the same as
// in the sequential pass:
//
//   - Let an owner have room r left after all decided examples, and let x be undecided. If fewer
//     than r undecided ones come before x, then x finds room in the sequential pass, since at most
//     those and the decided ones have taken any.
//   - Undecided examples that come before a kept one were within the room when that one was kept
//     and, as it took only its own place, still are. So when r = 0, all kept ones come before x,
//     which finds the owner full.
//
// An owner with room for all its undecided examples never refuses one and takes no further
// part. Who hears from no owner is kept. After a few rounds one worker finishes the rest, with
// the same code as the reference.
//
// Pools ([ownergraph.Pools]) are made by one worker, from turns and owners' numbers.
//
// # Determinism
//
// Every bucket is sorted before it is read, so nothing depends on the order in which a runner
// delivers. Counts are elements, not metrics, so a retried bundle is counted once.
package contribution

import (
	"fmt"
	"math"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/param"
	"minsep/internal/stream"
	"minsep/internal/transforms/keyref"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// Config holds the parameters of [Bound] besides the edges. Nothing in it is secret.
type Config struct {
	Bound ownergraph.Bound // the limits of an owner

	KeyURI       string       // of the key file, which every worker must be able to read
	RunID        stream.RunID // of the training run
	ParamsSHA256 [32]byte     // of the stage's parameters, as its index has them

	Examples, Owners ownergraph.IDType // of the ids in every batch of edges

	// The result does not depend on the fields below.

	Edges       int64  // about how many edges there are; 0 means ten million
	Buckets     int    // of each shuffle; 0 for as many as Edges calls for
	Rounds      int    // before one worker finishes; 0 for as many as Edges calls for
	SortMemory  int    // bytes a worker sorts in memory, the rest through files; 0 means 256 MiB
	HeavyOwner  int    // examples of an owner above which its list is not sent about; 0 for as many as Edges calls for
	RowsPerPart int    // consecutive rows in one part of the result; 0 means [DefaultRowsPerPart]
	TempDir     string // of those files on each worker; empty for the system's
	SharedDir   string // that every worker reads and writes, for output too large for one bundle; empty: all goes through the runner
	SharedAfter int64  // bytes that a DoFn passes on in a bundle before; 0 means 64 MiB
}

// DefaultRowsPerPart is the number of rows in every part of the result but the last.
const DefaultRowsPerPart = 1 << 20

// Validate reports every fault of c. It does not read the key file.
func (c Config) Validate() error {
	check := param.Checker{}
	check.Add(c.Bound.Validate())
	check.Add(c.key().Validate())
	check.Require(
		c.Examples <= ownergraph.Bytes,
		"type of the example ids",
		c.Examples,
		"must be int64, string or bytes",
	)
	check.Require(
		c.Owners <= ownergraph.Bytes,
		"type of the owner ids",
		c.Owners,
		"must be int64, string or bytes",
	)
	check.Require(
		c.Buckets >= 0 && c.Buckets <= packed.MaxBuckets,
		"buckets",
		c.Buckets,
		fmt.Sprintf("must be from 0 to %d", packed.MaxBuckets),
	)
	check.Require(c.Edges >= 0, "edges", c.Edges, "must be at least 0")
	check.Require(
		c.Rounds >= 0 && c.Rounds <= maxRounds,
		"rounds",
		c.Rounds,
		fmt.Sprintf("must be from 0 to %d", maxRounds),
	)
	check.AtLeast("sort memory", c.SortMemory, 0)
	check.AtLeast("heavy owner", c.HeavyOwner, 0)
	check.Require(c.SharedAfter >= 0, "shared after", c.SharedAfter, "must be at least 0")
	check.AtLeast("rows per part", c.RowsPerPart, 0)
	return check.Err()
}

func (c Config) key() keyref.Ref { return keyref.New(c.KeyURI, c.RunID, c.ParamsSHA256) }

const (
	edgeBytes    = 32      // of an edge in its largest shuffle, about
	aloneEdges   = 1 << 22 // that one worker finishes in seconds, about as long as a cluster takes for two rounds of nothing
	defaultEdges = 10_000_000
	maxRounds    = 64
)

// spec returns c with its defaults, as the DoFns carry it.
func (c Config) spec() spec {
	edges := c.Edges
	if edges == 0 {
		edges = defaultEdges
	}
	s := spec{
		Bound:       c.Bound,
		Key:         c.key(),
		Examples:    c.Examples,
		Owners:      c.Owners,
		Buckets:     c.Buckets,
		SortMemory:  c.SortMemory,
		TempDir:     c.TempDir,
		RowsPerPart: c.RowsPerPart,
		Heavy:       c.HeavyOwner,
		Overflow:    packed.Overflow{Dir: c.SharedDir, After: c.SharedAfter},
	}
	if s.Buckets == 0 {
		s.Buckets = packed.Buckets(edges * edgeBytes)
	}
	if s.Heavy == 0 {
		s.Heavy = int(min(max(leastHeavy, edges/heavyPart), math.MaxInt32))
	}
	if s.RowsPerPart == 0 {
		s.RowsPerPart = DefaultRowsPerPart
	}
	return s
}

// Sizes are the sizes that a configuration leads to.
type Sizes struct {
	Buckets    int // of each shuffle, at least 1
	Rounds     int // before one worker finishes, at least 1
	HeavyOwner int // examples of an owner above which its list is not sent about
}

// Sizes returns the sizes that c leads to, with its defaults.
func (c Config) Sizes() Sizes {
	s := c.spec()
	return Sizes{s.Buckets, c.rounds(), s.Heavy}
}

// rounds returns how many rounds are made. They go in pairs: one keeps examples, the next drops
// examples of the owners that this filled. With k_u = 1 they are the rounds of the greedy
// maximal independent set of the graph in which examples of one owner are neighbours, in random
// order, which ends after O(log n) of them with high probability, whatever the graph (Fischer
// and Noever, SODA 2018). A pipeline cannot make one more when it sees that too much is left: so
// many are made that the slowest graphs that were measured leave little, see [Undecided]. One
// worker finishes more than planned if need be.
//
// The undecided rest could also be divided by its components, which do not need each other. But
// until few are left it is a single component, and their labels then take as many rounds to
// travel as the decisions themselves.
func (c Config) rounds() int {
	if c.Rounds > 0 {
		return c.Rounds
	}
	pairs := 0
	for float64(c.Edges)*Undecided(c.Bound.MaxExamplesPerOwner, pairs) > aloneEdges && 2*pairs < maxRounds {
		pairs++
	}
	return 2 * pairs
}

// Undecided returns the part of the edges that is still undecided after this number of pairs of
// rounds, for this k_u, rounded up. It was measured on graphs with five owners for each example, in
// which an owner has many more examples than it keeps; the size of the graph made no difference.
// Graphs in which most owners keep most of their examples are decided in half as many rounds.
func Undecided(maxExamplesPerOwner, pairs int) float64 {
	left := undecided[0]
	switch {
	case maxExamplesPerOwner > 8:
		left = undecided[2]
	case maxExamplesPerOwner > 2:
		left = undecided[1]
	}
	last := len(left) - 1
	return left[min(pairs, last)] * math.Pow(lastPairs, float64(max(0, pairs-last)))
}

// undecided are the parts of [Undecided] for up to 2, up to 8 and more examples for an owner, and
// lastPairs is the part that each further pair leaves.
var undecided = [3][]float64{
	{1, .85, .55, .3, .17, .09, .045, .018, .0075, .0025, .00065, .0001},
	{1, .85, .72, .6, .5, .42, .33, .24, .16, .09, .042, .018, .0065, .002, .0004, .0001},
	{1, .85, .76, .69, .58, .47, .39, .3, .21, .15, .09, .06, .042, .026, .014, .007, .003, .001, .0003, .0001},
}

const lastPairs = .3

// Result is a bounded graph.
type Result struct {
	// Rows are the kept examples: KV<uint32, []byte>, part number and a chunk of package packed, of
	// records of any length: each is an encoded [ownergraph.Rows] of about 64 KiB within that part.
	// Rows are numbered from 0 in the order of the example ids; part i holds the rows from
	// i·RowsPerPart on. manifestio.WriteBounded takes them.
	Rows beam.PCollection
	// Summary is one element, []byte: an [ownergraph.Summary] as JSON.
	Summary beam.PCollection
}

// Bound bounds the graph with these edges, a PCollection<[]byte>: each element is an encoded
// [ownergraph.Edges] of the configured types. Elements of about 64 KiB serve well. The error names
// every fault of the configuration.
func Bound(s beam.Scope, c Config, edges beam.PCollection) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	s = s.Scope("contribution.Bound")
	spec := c.spec()
	byExample := beam.GroupByKey(s.Scope("by example"), beam.ParDo(s, &scatterFn{Spec: spec}, edges))
	toOwners, examples, gathered := beam.ParDo3(s, &gatherFn{Spec: spec}, byExample)
	if c.Bound.Pools > 0 {
		decisions, counts := makePools(s, spec, toOwners)
		kept, dropped := beam.ParDo2(
			s,
			&joinFn{Spec: spec, Last: true},
			beam.CoGroupByKey(s.Scope("decisions"), examples, decisions),
		)
		return Result{Rows: numberRows(s, spec, kept), Summary: total(s, append(counts, gathered, dropped))}, nil
	}
	decisions, ownersSeen, heavy := decide(s, spec, c.rounds(), toOwners)
	kept, dropped := beam.ParDo2(
		s,
		&joinFn{Spec: spec, Last: c.Bound.MaxNeighborhood == 0},
		beam.CoGroupByKey(s.Scope("decisions"), examples, decisions),
	)
	counts := []beam.PCollection{gathered, ownersSeen, dropped}
	if c.Bound.MaxNeighborhood > 0 {
		large := s.Scope("too large")
		tooLarge, _ := neighborhoods(large, spec, kept, heavy)
		kept, dropped = beam.ParDo2(
			large,
			&joinFn{Spec: spec, Neighborhoods: true, Last: true},
			beam.CoGroupByKey(large, kept, tooLarge),
		)
		counts = append(counts, dropped)
	}
	_, sizes := neighborhoods(s, spec, kept, heavy)
	return Result{Rows: numberRows(s, spec, kept), Summary: total(s, append(counts, sizes...))}, nil
}

// decide makes the rounds and returns the decisions, by bucket of the example, the counts of owners
// and the heavy ones.
func decide(
	s beam.Scope,
	spec spec,
	rounds int,
	toOwners beam.PCollection,
) (decisions, counts, heavy beam.PCollection) {
	s = s.Scope("decide")
	verdicts, counts, heavy := beam.ParDo3(
		s,
		&ownerFn{Spec: spec, Last: rounds == 0},
		beam.GroupByKey(s.Scope("by owner"), toOwners),
	)
	var all []beam.PCollection
	for round := 1; round <= rounds; round++ {
		s := s.Scope(fmt.Sprintf("round %d", round))
		toOwners, decided := beam.ParDo2(
			s,
			&exampleFn{Spec: spec},
			beam.GroupByKey(s.Scope("by example"), verdicts),
		)
		all = append(all, decided)
		verdicts, _, _ = beam.ParDo3(
			s,
			&ownerFn{Spec: spec, Round: round, Last: round == rounds},
			beam.GroupByKey(s.Scope("by owner"), toOwners),
		)
	}
	all = append(all, beam.ParDo(s, &finishFn{Spec: spec}, beam.GroupByKey(s.Scope("finish"), verdicts)))
	return beam.Flatten(s, all...), counts, heavy
}
