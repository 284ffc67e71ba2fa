package contribution

import (
	"cmp"
	"encoding/binary"
	"reflect"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[poolsFn]())
	beam.RegisterDoFn(reflect.TypeFor[noVerdictFn]())
}

// makePools returns the pools of the examples, as decisions by bucket of the example, and the
// counts of the owners. One worker makes them, with the code of the reference.
func makePools(
	s beam.Scope,
	spec spec,
	toOwners beam.PCollection,
) (decisions beam.PCollection, counts []beam.PCollection) {
	s = s.Scope("pools")
	verdicts, owners, _ := beam.ParDo3(
		s,
		&ownerFn{Spec: spec, Last: true},
		beam.GroupByKey(s.Scope("by owner"), toOwners),
	)
	all := beam.Flatten(s, verdicts, beam.ParDo(s, &noVerdictFn{}, beam.Impulse(s)))
	decisions, coverage := beam.ParDo2(s, &poolsFn{Spec: spec}, beam.GroupByKey(s, all))
	return decisions, []beam.PCollection{owners, coverage}
}

// noVerdictFn emits no verdict, so that pools of a graph without edges are made too.
type noVerdictFn struct{}

func (*noVerdictFn) ProcessElement(_ []byte, emit func(uint32, []byte)) { emit(0, nil) }

// poolsFn makes the pools from the verdicts, which say who owns which example: sorted, they are in
// the order in which equally used examples are taken. It holds the graph in numbers: 4 bytes for an
// edge, about 30 for an example and 40 for an owner, and 8 for each place in a pool.
type poolsFn struct {
	Spec spec

	packer *packed.Packer
}

func (f *poolsFn) StartBundle(_, _ packed.Emit) { f.packer = f.Spec.packer(0) }

func (f *poolsFn) ProcessElement(
	_ uint32,
	chunks func(*[]byte) bool,
	decisions, counts func(uint32, []byte),
) error {
	// Owners are numbered in the order in which they are met: FillPools needs small numbers, and
	// its result does not depend on which owner has which.
	var turns []turn // of the examples
	numbers := map[number]uint32{}
	graph := ownergraph.Lists{Starts: []uint32{0}}
	err := f.Spec.sortAndClose(f.Spec.verdictWidth(), chunks, func(s *packed.Sorter) error {
		return eachGroup(s, fixedLen(turnBytes),
			func(verdict []byte, n int, first bool) error {
				if first {
					turns = append(turns, readTurn(verdict))
				}
				owner := readNumber(verdict[n:])
				number, ok := numbers[owner]
				if !ok {
					number = uint32(len(numbers))
					numbers[owner] = number
				}
				if uint64(len(graph.Items)) >= 1<<32-2 {
					return ownergraph.ErrTooLarge
				}
				graph.Items = append(graph.Items, number)
				return nil
			},
			func() error {
				graph.Starts = append(graph.Starts, uint32(len(graph.Items)))
				return nil
			})
	})
	if err != nil {
		return err
	}
	owners := len(numbers)
	numbers = nil // its memory is needed for the pools
	pools, err := ownergraph.FillPools(&graph, owners, f.Spec.Bound.Pools)
	if err != nil {
		return err
	}
	part, kept := newTally(), make([]uint32, owners)
	part.Coverage, part.DroppedOwnerFull = pools.Coverage(), -pools.Cut // all that are not kept are counted as met by a full owner
	var record []byte
	for e, t := range turns {
		in := pools.Of.At(e)
		if len(in) == 0 {
			continue
		}
		for _, u := range graph.At(e) {
			kept[u]++
		}
		of := t.number()
		record = appendPools(binary.BigEndian.AppendUint32(record[:0], of.place()), in)
		f.packer.Add(of.bucket(), record, decisions)
	}
	for _, n := range kept {
		part.kept[int64(n)]++
	}
	delete(part.kept, 0) // those are counted at the end
	return part.emit(counts)
}

func (f *poolsFn) FinishBundle(decisions, _ func(uint32, []byte)) error {
	return f.packer.Flush(decisions)
}

// appendPools appends how many pools there are and their numbers, 2 bytes each.
func appendPools(b []byte, pools []uint32) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(pools)))
	for _, p := range pools {
		b = binary.BigEndian.AppendUint16(b, uint16(p))
	}
	return b
}

// poolsLen is the length of the pools that appendPools wrote at the beginning of b.
func poolsLen(b []byte) (int, error) {
	if len(b) < 2 || len(b) < 2+2*int(binary.BigEndian.Uint16(b)) {
		return 0, errRecord
	}
	return 2 + 2*int(binary.BigEndian.Uint16(b)), nil
}

// joinPools keeps the examples of a bucket that are in a pool, with their pools. An example without
// a decision is in no pool.
func (f *joinFn) joinPools(
	bucket uint32,
	examples, decisions func(*[]byte) bool,
	kept packed.Emit,
) (n int, err error) {
	pools := map[uint32][]byte{} // by place
	var chunk []byte
	for decisions(&chunk) {
		err := packed.Records(chunk, 0, func(d []byte) error {
			if len(d) < 4 {
				return errRecord
			}
			pools[binary.BigEndian.Uint32(d)] = append([]byte(nil), d[4:]...)
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	for examples(&chunk) {
		err := packed.Records(chunk, 0, func(example []byte) error {
			n++
			if len(example) < exampleHead {
				return errRecord
			}
			in, ok := pools[binary.BigEndian.Uint32(example)]
			if !ok {
				f.counts.DroppedOwnerFull++
				return nil
			}
			f.record = append(
				append(append(f.record[:0], example[:exampleHead]...), in...),
				example[exampleHead:]...)
			f.packer.Add(bucket, f.record, kept)
			return f.count(example, 1)
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// addPools adds the pools at the beginning of b to the row that comes next, and returns their
// length.
func addPools(rows *ownergraph.Rows, b []byte) (int, error) {
	n, err := poolsLen(b)
	if err != nil || n == 2 {
		return n, cmp.Or(err, errRecord)
	}
	for at := 2; at < n; at += 2 {
		rows.Pools = append(rows.Pools, uint32(binary.BigEndian.Uint16(b[at:])))
	}
	rows.PoolEnds = append(rows.PoolEnds, uint32(len(rows.Pools)))
	return n, nil
}
