// Package contribution bounds, with Beam, how many examples an owner contributes to a run.
//
// # Behavior
//
// [Bound] gives the same result, bit for bit, as the sequential greedy pass of
// [ownergraph.Bound], for any number of buckets and workers, order of the edges, and retries.
//
// Examples get numbers in the order of their ids: a bucket is a range of ids, which a sample divides,
// and a number is the bucket and the place in it. The turn of an example in the sequential pass is
// the class of its owners, where examples with the fewest owners come first, then its priority and
// its number. Owners get numbers too. What costs most, reading, sorting and writing ids, is done by
// all workers.
//
// A small graph goes to one worker as it is, which bounds it in memory. The pipeline counts the bytes
// of the edges itself.
//
// Of a larger one, one worker gets the turn and the owner's number of each edge, 23 bytes, and decides about all
// examples with the code of the reference: the pass, copies, neighbourhoods, pools and the summary.
// It sorts through files, and holds the examples that it keeps, see decideFn.
//
// # Determinism
//
// Every bucket is sorted before it is read, so nothing depends on the order in which a runner
// delivers. Counts are elements, not metrics, so a retried bundle is counted once.
package contribution

import (
	"cmp"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/param"
	"minsep/internal/transforms/keyref"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// Config holds the parameters of [Bound] besides the edges. Nothing in it is secret.
type Config struct {
	Bound ownergraph.Bound // the limits of an owner
	Key   keyref.Ref       // the root key, and for what keys are derived from it

	Examples, Owners ownergraph.IDType // of the ids in every batch of edges

	// The result does not depend on the fields below.

	Edges       int64           // about how many edges there are; 0 means ten million
	Buckets     int             // of each shuffle, also for a small graph; 0 for as many as Edges calls for
	Small       int64           // bytes of edges that one worker bounds without a shuffle, unless Buckets is given; 0 means 2^29
	SortMemory  int             // bytes a worker sorts in memory, the rest through files; 0 means 256 MiB
	RowsPerPart int             // consecutive rows in one part of the result; 0 means [DefaultRowsPerPart]
	TempDir     string          // of those files on each worker; empty for the system's
	Overflow    packed.Overflow // for output too large for one bundle, in a folder that every worker reads and writes; none: all goes through the runner
}

// DefaultRowsPerPart is the number of rows in every part of the result but the last.
const DefaultRowsPerPart = 1 << 20

// Validate reports every fault of c. It does not read the key file.
func (c Config) Validate() error {
	check := param.Checker{}
	check.Add(c.Bound.Validate())
	check.Add(c.Key.Validate())
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
	check.Requiref(
		c.Buckets >= 0 && c.Buckets <= packed.MaxBuckets,
		"buckets",
		c.Buckets,
		"must be from 0 to %d", packed.MaxBuckets,
	)
	check.Require(c.Edges >= 0, "edges", c.Edges, "must be at least 0")
	check.Require(c.Small >= 0, "small graph", c.Small, "must have at least 0 bytes")
	check.AtLeast("sort memory", c.SortMemory, 0)
	check.Require(c.Overflow.After >= 0, "overflow", c.Overflow.After, "must begin after at least 0 bytes")
	check.AtLeast("rows per part", c.RowsPerPart, 0)
	return check.Err()
}

const (
	edgeBytes    = 32 // of an edge in its largest shuffle, about
	defaultEdges = 10_000_000
)

// withDefaults returns c with its defaults, as the DoFns carry it.
func (c Config) withDefaults() Config {
	if c.Buckets == 0 {
		c.Small = cmp.Or(c.Small, smallGraph)
	} else {
		c.Small = 0
	}
	c.Edges = cmp.Or(c.Edges, defaultEdges)
	c.Buckets = cmp.Or(c.Buckets, packed.Buckets(c.Edges*edgeBytes))
	c.RowsPerPart = cmp.Or(c.RowsPerPart, DefaultRowsPerPart)
	return c
}

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
	c = c.withDefaults()
	sample := beam.ParDo(s, &sampleFn{Config: c}, edges)
	scattered, together := beam.ParDo2(s, &scatterFn{Config: c}, edges, beam.SideInput{Input: sample})
	aloneRows, aloneSummary := beam.ParDo2(s, &aloneFn{Config: c}, beam.GroupByKey(s.Scope("alone"), together))
	byExample := beam.GroupByKey(s.Scope("by example"), scattered)
	toOwners, examples, duplicates := beam.ParDo3(s, &gatherFn{Config: c}, byExample)
	byOwner := beam.GroupByKey(s.Scope("by owner"), toOwners)
	ownerships, counts := beam.ParDo2(s, &ownerFn{Config: c}, byOwner)
	all := beam.Flatten(s, ownerships, beam.ParDo(s, &nobodyFn{}, beam.Impulse(s)))
	decisions, firstRows, summary := beam.ParDo3(
		s,
		&decideFn{Config: c},
		beam.GroupByKey(s.Scope("decide"), all),
		beam.SideInput{Input: counts},
		beam.SideInput{Input: duplicates},
		beam.SideInput{Input: sample},
	)
	decided := beam.CoGroupByKey(s.Scope("decisions"), examples, decisions, firstRows)
	rows := beam.ParDo(s, &rowsFn{Config: c}, decided)
	return Result{
		Rows: beam.Flatten(s.Scope("rows"), rows, aloneRows),
		// Prism may take a flattened collection that becomes a side input for an empty one.
		Summary: beam.ParDo(s, oneOf, beam.Impulse(s.Scope("summary")), beam.SideInput{Input: summary}, beam.SideInput{Input: aloneSummary}),
	}, nil
}
