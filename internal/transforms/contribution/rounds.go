package contribution

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"minsep/internal/packed"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[ownerFn]())
	beam.RegisterDoFn(reflect.TypeFor[exampleFn]())
	beam.RegisterDoFn(reflect.TypeFor[finishFn]())
}

// grant is the number of copies that an owner with some room left allows its undecided examples,
// which come in the order of their priority. The sequential pass considers copy c of each example
// before copy c+1 of any. So the next copies, as many as there is room for and up to most of each
// example, find room whether or not the copies before them are kept. Therefore all examples with
// fewer copies get level copies, and among the examples that then have level copies the first extra
// get one more.
type grant struct {
	level uint32
	extra uint64
}

// newGrant returns the grant of an owner with room for a number of further copies. levels has the
// number of undecided examples by the copies that they have. Together they want more than room.
func newGrant(levels map[uint32]uint64, room, most uint32) grant {
	left, active := uint64(room), uint64(0)
	copies := slices.Sorted(maps.Keys(levels))
	var g grant
	for i, c := range copies {
		g.level = c
		active += levels[c]
		until := most
		if i+1 < len(copies) {
			until = copies[i+1]
		}
		passes := min(uint64(until-c), left/active)
		g.level += uint32(passes)
		if left -= passes * active; g.level < until {
			g.extra = left
			break
		}
	}
	return g
}

// take returns the number of further copies that the next undecided example is allowed, from the
// number of copies that it has.
func (g *grant) take(copies uint32) (allowed uint32) {
	if copies > g.level {
		return 0
	}
	allowed = g.level - copies
	if g.extra > 0 {
		g.extra--
		allowed++
	}
	return allowed
}

// waiting has the undecided examples of one owner, which may be any number of them.
type waiting struct {
	spool  packed.Spool // example's turn, copies
	levels map[uint32]uint64
	wanted uint64 // how many more copies they could take at all
	record []byte
}

func (w *waiting) reset() {
	w.spool.Reset()
	clear(w.levels)
	w.wanted = 0
}

// add takes the example of the turn that the record begins with.
func (w *waiting) add(record []byte, copies uint32, s *spec) error {
	most := s.Bound.MaxCopies()
	if copies >= most {
		return nil
	}
	w.levels[copies]++
	w.wanted += uint64(most - copies)
	w.record = appendCount(append(w.record[:0], record[:turnBytes]...), s.countBytes(), copies)
	return w.spool.Add(w.record)
}

// ownerFn makes the verdicts of the owners of a bucket on their undecided examples, from their
// memberships in the first round and from the examples' reports later. An owner with room for all
// copies that its examples could still take is done. The first round numbers the owners, counts
// them, and emits the heavy ones.
type ownerFn struct {
	Spec  spec
	Round int  // that come before
	Last  bool // the verdicts go to the one worker that finishes

	packer  *packed.Packer
	counts  tally
	waiting waiting
	record  []byte
}

func (f *ownerFn) StartBundle(_, _ packed.Emit, _ func([]byte)) {
	f.packer = f.Spec.packer(f.Spec.verdictWidth())
	if f.Last {
		f.packer = f.Spec.packerToOne(f.Spec.verdictWidth())
	}
	f.counts = newTally()
	f.waiting = waiting{spool: f.Spec.spool(turnBytes + f.Spec.countBytes()), levels: map[uint32]uint64{}}
}

func (f *ownerFn) ProcessElement(
	bucket uint32,
	chunks func(*[]byte) bool,
	verdicts, _ func(uint32, []byte),
	heavy func([]byte),
) error {
	if f.Round == 0 {
		return f.first(bucket, chunks, verdicts, heavy)
	}
	return f.later(chunks, verdicts)
}

func (f *ownerFn) FinishBundle(ctx context.Context, verdicts, counts func(uint32, []byte), _ func([]byte)) error {
	err := f.packer.Flush(verdicts)
	verdictsPacked[min(f.Round, len(verdictsPacked)-1)].Add(ctx, f.packer.Packed())
	return cmp.Or(err, f.waiting.spool.Close(), f.counts.emit(counts))
}

func (f *ownerFn) first(bucket uint32, chunks func(*[]byte) bool, verdicts packed.Emit, heavy func([]byte)) error {
	var owner []byte
	owners := int64(0)
	keyLen := func(record []byte) (int, error) { return len(record) - turnBytes, nil }
	return f.Spec.sortAndClose(f.Spec.membershipWidth(), chunks, func(s *packed.Sorter) error {
		return eachGroup(s, keyLen,
			func(record []byte, n int, first bool) error {
				if first {
					f.waiting.reset()
					owner = append(owner[:0], record[:n]...)
				}
				return f.waiting.add(record[n:], 0, &f.Spec)
			},
			func() error {
				f.counts.Owners++
				given := f.waiting.spool.Len()
				f.counts.given[given]++
				if f.Spec.mayBeHeavy() && given > int64(f.Spec.Heavy) {
					heavy(heavyRecord(given, owner))
				}
				if owners > math.MaxUint32 {
					return fmt.Errorf(
						"bucket %d has more than 2^32 owners: give --buckets, above %d",
						bucket,
						f.Spec.Buckets,
					)
				}
				owners++
				return f.judge(
					newNumber(bucket, uint32(owners-1)),
					uint32(f.Spec.Bound.MaxExamplesPerOwner),
					verdicts,
				)
			})
	})
}

func (f *ownerFn) later(chunks func(*[]byte) bool, verdicts packed.Emit) error {
	size := f.Spec.countBytes()
	var owner number
	var room uint32
	return f.Spec.sortAndClose(f.Spec.verdictWidth(), chunks, func(s *packed.Sorter) error {
		return eachGroup(s, fixedLen(numberBytes),
			func(report []byte, n int, first bool) error {
				counts := report[numberBytes+turnBytes:]
				if first {
					f.waiting.reset()
					owner, room = readNumber(report), readCount(counts, size)
				}
				room -= readCount(counts[size:], size)
				return f.waiting.add(report[n:], readCount(counts[2*size:], size), &f.Spec)
			},
			func() error { return f.judge(owner, room, verdicts) })
	})
}

// judge emits an owner's verdicts.
func (f *ownerFn) judge(owner number, room uint32, verdicts packed.Emit) error {
	if f.waiting.wanted <= uint64(room) && f.Spec.Bound.Pools == 0 { // who is made pools of hears from each owner
		return nil
	}
	grant := newGrant(f.waiting.levels, room, f.Spec.Bound.MaxCopies())
	size := f.Spec.countBytes()
	return f.waiting.spool.Each(func(e []byte) error {
		bucket := readTurn(e).number().bucket()
		if f.Last {
			bucket = 0
		}
		copies := readCount(e[turnBytes:], size)
		f.record = append(f.record[:0], e[:turnBytes]...)
		f.record = appendNumber(f.record, owner)
		f.record = appendCount(f.record, size, room)
		f.record = appendCount(f.record, size, grant.take(copies))
		f.record = appendCount(f.record, size, copies)
		f.packer.Add(bucket, f.record, verdicts)
		return nil
	})
}

// exampleFn decides about examples from the verdicts on them. If an example took copies or is still
// undecided, exampleFn reports to its owners; if an owner refused it, exampleFn emits a decision.
// An example that took all copies it can needs no decision: without one it is kept.
type exampleFn struct {
	Spec spec

	reports, decisions *packed.Packer
	verdicts           packed.Spool // on one example, of any number: owner's number, room
	record             []byte
}

func (f *exampleFn) StartBundle(_, _ packed.Emit) {
	f.reports = f.Spec.packer(f.Spec.verdictWidth())
	f.decisions = f.Spec.packer(decisionBytes)
	f.verdicts = f.Spec.spool(numberBytes + f.Spec.countBytes())
}

func (f *exampleFn) ProcessElement(
	bucket uint32,
	chunks func(*[]byte) bool,
	reports, decisions func(uint32, []byte),
) error {
	size := f.Spec.countBytes()
	var example turn
	var allowed, copies uint32
	var full bool
	return f.Spec.sortAndClose(f.Spec.verdictWidth(), chunks, func(s *packed.Sorter) error {
		return eachGroup(s, fixedLen(turnBytes),
			func(record []byte, n int, first bool) error {
				counts := record[turnBytes+numberBytes:]
				room := readCount(counts, size)
				if first {
					f.verdicts.Reset()
					full = false
					example, allowed, copies = readTurn(record), math.MaxUint32, readCount(counts[2*size:], size)
				}
				allowed = min(allowed, readCount(counts[size:], size))
				full = full || room == 0
				return f.verdicts.Add(record[n : n+numberBytes+size])
			},
			func() error {
				if full {
					f.record = appendDecision(f.record[:0], example.number().place(), copies)
					f.decisions.Add(bucket, f.record, decisions)
					return nil
				}
				return f.report(example, allowed, copies+allowed, reports)
			})
	})
}

// report tells the owners that example took so many copies and now has copies.
func (f *exampleFn) report(example turn, taken, copies uint32, reports packed.Emit) error {
	size := f.Spec.countBytes()
	return f.verdicts.Each(func(v []byte) error {
		f.record = appendTurn(append(f.record[:0], v[:numberBytes]...), example)
		f.record = append(f.record, v[numberBytes:]...)
		f.record = appendCount(f.record, size, taken)
		f.record = appendCount(f.record, size, copies)
		f.reports.Add(readNumber(v).bucket(), f.record, reports)
		return nil
	})
}

func (f *exampleFn) FinishBundle(ctx context.Context, reports, decisions func(uint32, []byte)) error {
	err := cmp.Or(f.reports.Flush(reports), f.decisions.Flush(decisions))
	reportsPacked.Add(ctx, f.reports.Packed())
	decisionsPacked.Add(ctx, f.decisions.Packed())
	return cmp.Or(err, f.verdicts.Close())
}

// appendDecision appends the decision that the example at place is kept with a number of copies,
// perhaps 0.
func appendDecision(b []byte, place, copies uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, place), copies)
}
