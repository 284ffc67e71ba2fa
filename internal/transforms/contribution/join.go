package contribution

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"reflect"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/transforms/progress"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[joinFn]())
	beam.RegisterDoFn(reflect.TypeFor[zeroFn]())
	beam.RegisterDoFn(reflect.TypeFor[totalFn]())
}

var (
	edgesRead       = progress.New("edges sorted")
	examplesDecided = progress.New("examples decided")
)

// exampleHead is the length of an example before its id: its place and copies.
const exampleHead = 8

// joinFn applies decisions to the examples of a bucket, passes those on that are kept, and counts.
// An example without a decision keeps its copies.
type joinFn struct {
	Spec          spec
	Neighborhoods bool // the decisions drop examples for the size of their neighbourhoods
	Last          bool // count the kept examples

	packer  *packed.Packer
	counts  tally
	decided []uint32 // by place of an example: 1 + its copies, or 0 without a decision
	record  []byte
}

func (f *joinFn) StartBundle(_, _ packed.Emit) {
	f.packer = f.Spec.packer(0)
	f.counts = newTally()
}

func (f *joinFn) ProcessElement(
	ctx context.Context,
	bucket uint32,
	examples, decisions func(*[]byte) bool,
	kept, _ func(uint32, []byte),
) error {
	if f.Spec.Bound.Pools > 0 {
		n, err := f.joinPools(bucket, examples, decisions, kept)
		examplesDecided.Add(ctx, n)
		return err
	}
	// Decisions are small, 8 bytes each, and are held; examples, which have all their owners,
	// stream by.
	f.decided = f.decided[:0]
	var chunk []byte
	for decisions(&chunk) {
		err := packed.Records(chunk, decisionBytes, func(d []byte) error {
			place := int(binary.BigEndian.Uint32(d))
			// Places count up from 0 within a bucket, so that a slice serves in place of a map.
			if missing := place + 1 - len(f.decided); missing > 0 {
				f.decided = append(f.decided, make([]uint32, missing)...)
			}
			f.decided[place] = 1 + binary.BigEndian.Uint32(d[4:])
			return nil
		})
		if err != nil {
			return err
		}
	}
	for examples(&chunk) {
		n := 0
		err := packed.Records(
			chunk,
			0,
			func(example []byte) error { n++; return f.example(bucket, example, kept) },
		)
		if err != nil {
			return err
		}
		examplesDecided.Add(ctx, n)
	}
	return nil
}

func (f *joinFn) example(bucket uint32, example []byte, kept packed.Emit) error {
	if len(example) < exampleHead {
		return errRecord
	}
	copies := binary.BigEndian.Uint32(example[4:])
	if place := binary.BigEndian.Uint32(example); int(place) < len(f.decided) && f.decided[place] > 0 {
		copies = f.decided[place] - 1
	}
	switch {
	case f.Neighborhoods && (copies == 0 || copies > uint32(f.Spec.Bound.MaxNeighborhood)):
		f.counts.DroppedNeighborhood++ // its own copies are in its neighbourhood
		return nil
	case copies == 0:
		f.counts.DroppedOwnerFull++
		return nil
	}
	f.record = append(f.record[:0], example...)
	binary.BigEndian.PutUint32(f.record[4:], copies)
	f.packer.Add(bucket, f.record, kept)
	if f.Last {
		return f.count(example, copies)
	}
	return nil
}

// count counts a kept example. Its neighbourhood is its own copies unless the owners' lists say
// more, see sizeFn.
func (f *joinFn) count(example []byte, copies uint32) error {
	f.counts.Kept++
	f.counts.KeptCopies += int64(copies)
	if f.Spec.Bound.Pools == 0 {
		f.counts.sizes[int64(copies)] += int64(copies)
	}
	owners := int64(0)
	err := f.Spec.eachOwner(example[exampleHead:], func([]byte) { owners++ })
	f.counts.KeptEdges += owners
	f.counts.keptOwners[owners]++
	return err
}

func (f *joinFn) FinishBundle(ctx context.Context, kept, counts func(uint32, []byte)) error {
	err := f.packer.Flush(kept)
	keptPacked.Add(ctx, f.packer.Packed())
	return cmp.Or(err, f.counts.emit(counts))
}

// tally is a part of the summary. Histograms are maps while they grow, and sorted lists where parts
// travel, so that equal summaries have equal bytes.
type tally struct {
	ownergraph.Summary
	given, kept, sizes      map[int64]int64
	givenOwners, keptOwners map[int64]int64
}

func newTally() tally {
	return tally{
		given:       map[int64]int64{},
		kept:        map[int64]int64{},
		sizes:       map[int64]int64{},
		givenOwners: map[int64]int64{},
		keptOwners:  map[int64]int64{},
	}
}

// emit emits the counts.
func (t *tally) emit(emit packed.Emit) error {
	b, err := t.encode()
	if err == nil {
		emit(0, b)
	}
	return err
}

func (t *tally) encode() ([]byte, error) {
	t.GivenPerOwner, t.KeptPerOwner, t.Neighborhoods = ownergraph.NewHistogram(
		t.given,
	), ownergraph.NewHistogram(
		t.kept,
	), ownergraph.NewHistogram(
		t.sizes,
	)
	t.GivenOwners, t.KeptOwners = ownergraph.NewHistogram(t.givenOwners), ownergraph.NewHistogram(t.keptOwners)
	return json.Marshal(&t.Summary)
}

// add adds a part.
func (t *tally) add(o *ownergraph.Summary) {
	t.Examples += o.Examples
	t.Owners += o.Owners
	t.Edges += o.Edges
	t.DuplicateEdges += o.DuplicateEdges
	t.Kept += o.Kept
	t.KeptCopies += o.KeptCopies
	t.KeptEdges += o.KeptEdges
	t.DroppedOwnerFull += o.DroppedOwnerFull
	t.DroppedNeighborhood += o.DroppedNeighborhood
	if o.Coverage != nil { // one worker makes the pools, so that one part has it
		t.Coverage = o.Coverage
	}
	for _, h := range []struct {
		to   map[int64]int64
		from ownergraph.Histogram
	}{{t.given, o.GivenPerOwner}, {t.kept, o.KeptPerOwner}, {t.sizes, o.Neighborhoods}, {t.givenOwners, o.GivenOwners}, {t.keptOwners, o.KeptOwners}} {
		for _, bin := range h.from {
			h.to[bin.Value] += bin.Count
		}
	}
}

// total adds all counts up.
func total(s beam.Scope, counts []beam.PCollection) beam.PCollection {
	s = s.Scope("total")
	counts = append(counts, beam.ParDo(s, &zeroFn{}, beam.Impulse(s)))
	return beam.ParDo(s, &totalFn{}, beam.GroupByKey(s, beam.Flatten(s, counts...)))
}

// zeroFn emits an empty part of the summary, so that a graph without edges has a summary too:
// GroupByKey gives no group where there is no element.
type zeroFn struct{}

func (*zeroFn) ProcessElement(_ []byte, emit func(uint32, []byte)) error {
	part := newTally()
	return part.emit(emit)
}

// totalFn adds the parts of the summary.
type totalFn struct{}

func (*totalFn) ProcessElement(_ uint32, parts func(*[]byte) bool, emit func([]byte)) error {
	sum := newTally()
	var part []byte
	for parts(&part) {
		var s ownergraph.Summary
		if err := json.Unmarshal(part, &s); err != nil {
			return err
		}
		sum.add(&s)
	}
	// Owners without a kept example were seen among the given ones only.
	left := sum.Owners
	for _, n := range sum.kept {
		left -= n
	}
	sum.kept[0] += left
	b, err := sum.encode()
	if err == nil {
		emit(b)
	}
	return err
}
