package contribution

import (
	"encoding/binary"
	"fmt"
	"math"

	"minsep/transforms/internal/packed"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn4x1[uint32, func(*[]byte) bool, func(uint32, []byte), func(uint32, []byte), error](&ownerFn{})
	register.DoFn4x1[uint32, func(*[]byte) bool, func(uint32, []byte), func(uint32, []byte), error](&exampleFn{})
	register.DoFn3x1[uint32, func(*[]byte) bool, func(uint32, []byte), error](&finishFn{})
}

// undecided is an example as one of its owners sees it.
type undecided struct {
	example number
	copies  uint32 // that it has
	allowed uint32 // how many more it may take, whatever the others do
}

// allow sets what an owner with room for so many more copies allows its undecided examples, which are in the order
// of their priority. Sequentially, copy c of each is considered before copy c+1 of any: the first room of all copies
// to come, up to most each, find room whatever becomes of those before them.
func allow(examples []undecided, room, most uint32) {
	pass := most
	for _, e := range examples {
		pass = min(pass, e.copies)
	}
	for ; pass < most && room > 0; pass++ {
		for i := range examples {
			if e := &examples[i]; e.copies+e.allowed == pass {
				e.allowed++
				if room--; room == 0 {
					return
				}
			}
		}
	}
}

// wanted returns how many more copies the examples could take at all.
func wanted(examples []undecided, most uint32) (n uint64) {
	for _, e := range examples {
		n += uint64(most - e.copies)
	}
	return n
}

// ownerFn makes the verdicts of the owners of a bucket on their undecided examples, from their memberships in the
// first round and from the examples' reports later. An owner with room for all it could be asked for is done. The first round
// numbers the owners and counts them.
type ownerFn struct {
	Spec  spec
	First bool
	Last  bool // the verdicts go to the one worker that finishes

	packer   *packed.Packer
	counts   tally
	examples []undecided
	record   []byte
}

func (f *ownerFn) StartBundle(_, _ packed.Emit) {
	f.packer = packed.NewPacker(f.Spec.verdictWidth(), f.Spec.Buckets)
	f.counts = newTally()
}

func (f *ownerFn) ProcessElement(bucket uint32, chunks func(*[]byte) bool, verdicts, _ func(uint32, []byte)) error {
	verdicts = f.destination(verdicts)
	if f.First {
		return f.first(bucket, chunks, verdicts)
	}
	return f.later(chunks, verdicts)
}

func (f *ownerFn) FinishBundle(verdicts, counts func(uint32, []byte)) error {
	f.packer.Flush(f.destination(verdicts))
	return f.counts.emit(counts)
}

// destination sends chunks to the buckets of their examples, or all to bucket 0.
func (f *ownerFn) destination(emit packed.Emit) packed.Emit {
	if !f.Last {
		return emit
	}
	return func(_ uint32, chunk []byte) { emit(0, chunk) }
}

func (f *ownerFn) first(bucket uint32, chunks func(*[]byte) bool, verdicts packed.Emit) error {
	owners := int64(0)
	keyLen := func(record []byte) (int, error) { return len(record) - numberBytes, nil }
	return f.Spec.sortAndClose(f.Spec.membershipWidth(), chunks, func(s *packed.Sorter) error {
		return eachGroup(s, keyLen,
			func(record []byte, n int, first bool) error {
				if first {
					f.examples = f.examples[:0]
				}
				f.examples = append(f.examples, undecided{example: readNumber(record[n:])})
				return nil
			},
			func() error {
				f.counts.Owners++
				f.counts.given[int64(len(f.examples))]++
				if owners > math.MaxUint32 {
					return fmt.Errorf("contribution: bucket %d has more than 2^32 owners: take more than %d buckets", bucket, f.Spec.Buckets)
				}
				f.judge(newNumber(bucket, uint32(owners)), uint32(f.Spec.Bound.MaxExamplesPerOwner), verdicts)
				owners++
				return nil
			})
	})
}

func (f *ownerFn) later(chunks func(*[]byte) bool, verdicts packed.Emit) error {
	size, most := f.Spec.countBytes(), f.Spec.Bound.MaxCopies()
	var owner number
	var room uint32
	return f.Spec.sortAndClose(f.Spec.verdictWidth(), chunks, func(s *packed.Sorter) error {
		return eachGroup(s, fixedLen(numberBytes),
			func(report []byte, n int, first bool) error {
				counts := report[2*numberBytes:]
				if first {
					f.examples = f.examples[:0]
					owner, room = readNumber(report), readCount(counts, size)
				}
				room -= readCount(counts[size:], size)
				if copies := readCount(counts[2*size:], size); copies < most {
					f.examples = append(f.examples, undecided{example: readNumber(report[n:]), copies: copies})
				}
				return nil
			},
			func() error { f.judge(owner, room, verdicts); return nil })
	})
}

// judge emits an owner's verdicts.
func (f *ownerFn) judge(owner number, room uint32, verdicts packed.Emit) {
	most := f.Spec.Bound.MaxCopies()
	if wanted(f.examples, most) <= uint64(room) {
		return
	}
	allow(f.examples, room, most)
	size := f.Spec.countBytes()
	for _, e := range f.examples {
		f.record = appendNumber(f.record[:0], e.example)
		f.record = appendNumber(f.record, owner)
		f.record = appendCount(f.record, size, room)
		f.record = appendCount(f.record, size, e.allowed)
		f.record = appendCount(f.record, size, e.copies)
		f.packer.Add(e.example.bucket(), f.record, verdicts)
	}
}

// exampleFn draws the examples' conclusions from the verdicts on them: it reports to the owners of those that took copies
// or are still undecided, and emits a decision for those that an owner refused. An example that took all it can
// needs no decision: without one it is kept.
type exampleFn struct {
	Spec spec

	reports, decisions *packed.Packer
	verdicts           []verdict
	record             []byte
}

// verdict is what one owner says of an example.
type verdict struct {
	owner number
	room  uint32
}

func (f *exampleFn) StartBundle(_, _ packed.Emit) {
	f.reports = packed.NewPacker(f.Spec.verdictWidth(), f.Spec.Buckets)
	f.decisions = packed.NewPacker(decisionBytes, f.Spec.Buckets)
}

func (f *exampleFn) ProcessElement(bucket uint32, chunks func(*[]byte) bool, reports, decisions func(uint32, []byte)) error {
	size := f.Spec.countBytes()
	var example number
	var allowed, copies uint32
	var full bool
	return f.Spec.sortAndClose(f.Spec.verdictWidth(), chunks, func(s *packed.Sorter) error {
		return eachGroup(s, fixedLen(numberBytes),
			func(record []byte, n int, first bool) error {
				counts := record[2*numberBytes:]
				room := readCount(counts, size)
				if first {
					f.verdicts, full = f.verdicts[:0], false
					example, allowed, copies = readNumber(record), math.MaxUint32, readCount(counts[2*size:], size)
				}
				f.verdicts = append(f.verdicts, verdict{readNumber(record[n:]), room})
				allowed = min(allowed, readCount(counts[size:], size))
				full = full || room == 0
				return nil
			},
			func() error {
				if full {
					f.record = appendDecision(f.record[:0], example.place(), copies)
					f.decisions.Add(bucket, f.record, decisions)
					return nil
				}
				f.report(example, allowed, copies+allowed, reports)
				return nil
			})
	})
}

// report tells the owners that example took so many copies and now has copies.
func (f *exampleFn) report(example number, taken, copies uint32, reports packed.Emit) {
	size := f.Spec.countBytes()
	for _, v := range f.verdicts {
		f.record = appendNumber(f.record[:0], v.owner)
		f.record = appendNumber(f.record, example)
		f.record = appendCount(f.record, size, v.room)
		f.record = appendCount(f.record, size, taken)
		f.record = appendCount(f.record, size, copies)
		f.reports.Add(v.owner.bucket(), f.record, reports)
	}
}

func (f *exampleFn) FinishBundle(reports, decisions func(uint32, []byte)) {
	f.reports.Flush(reports)
	f.decisions.Flush(decisions)
}

// appendDecision says that the example at place is kept so often, maybe never.
func appendDecision(b []byte, place, copies uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, place), copies)
}
