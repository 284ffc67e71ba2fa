package contribution

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"reflect"
	"slices"

	"minsep/internal/packed"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[spreadHeavyFn]())
	beam.RegisterDoFn(reflect.TypeFor[patternsFn]())
	beam.RegisterDoFn(reflect.TypeFor[sizeHeavyFn]())
}

// A heavy owner has so many examples that its list cannot be sent to every bucket that holds one of
// them. Instead, examples travel with their pattern, which is the set of their heavy owners, and
// all workers know the number of copies with each pattern. The neighbourhood of an example then has
// two parts: all copies with a pattern that meets its own; and, in the lists of its other owners,
// the examples with a pattern that does not meet it.

const (
	maxHeavy     = 1 << 10 // heavy owners; more are treated as others
	heavyBytes   = 2       // of a heavy owner's number
	leastHeavy   = 1 << 14 // examples, at least, of a heavy owner
	heavyPart    = 1 << 10 // and this part of all edges
	patternsHeld = 1 << 16 // in memory by a worker that counts
)

// heavyRecord is the record of a heavy owner that the first round emits: the number of examples
// that the owner was given, and its hash and id.
func heavyRecord(examples int64, owner []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(examples)), owner...)
}

// heavyOwners numbers the heavy owners of a side input by their hash and id. If there are too many,
// it numbers the owners with the most examples, and treats the rest as others.
func heavyOwners(side func(*[]byte) bool) (map[string]uint16, error) {
	var all [][]byte
	for r := []byte(nil); side(&r); r = nil {
		if len(r) < 8 {
			return nil, errRecord
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b []byte) int { return cmp.Or(bytes.Compare(b[:8], a[:8]), bytes.Compare(a, b)) })
	numbers := make(map[string]uint16)
	for i, r := range all[:min(len(all), maxHeavy)] {
		numbers[string(r[8:])] = uint16(i)
	}
	return numbers, nil
}

// A pattern is written as the numbers of the heavy owners, ascending, with how many they are before
// and behind them.

func appendPattern(b []byte, pattern []uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(pattern)))
	for _, h := range pattern {
		b = binary.BigEndian.AppendUint16(b, h)
	}
	return binary.BigEndian.AppendUint16(b, uint16(len(pattern)))
}

// patternOwners is a pattern without its counts.
func patternOwners(p []byte) []byte { return p[heavyBytes : len(p)-heavyBytes] }

// shareOwner is the length of the part of a share that names the owner.
func (s *spec) shareOwner(share []byte) (int, error) {
	n := len(share) - numberBytes - s.countBytes()
	if s.mayBeHeavy() {
		if len(share) < heavyBytes {
			return 0, errRecord
		}
		n -= heavyBytes * (2 + int(binary.BigEndian.Uint16(share[len(share)-heavyBytes:])))
	}
	if n < hashBytes {
		return 0, errRecord
	}
	return n, nil
}

// memberLen is the length of the member that the list b begins with.
func (s *spec) memberLen(b []byte) (int, error) {
	n := numberBytes + s.countBytes()
	if s.mayBeHeavy() && len(b) >= n+heavyBytes {
		n += heavyBytes * (2 + int(binary.BigEndian.Uint16(b[n:])))
	}
	if len(b) < n {
		return 0, errRecord
	}
	return n, nil
}

// mayBeHeavy reports whether an owner can keep enough examples to be heavy.
func (s *spec) mayBeHeavy() bool { return s.Bound.MaxExamplesPerOwner > s.Heavy }

// meet says whether two patterns, without their counts, have an owner in common.
func meet(a, b string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch x, y := a[:heavyBytes], b[:heavyBytes]; {
		case x == y:
			return true
		case x < y:
			a = a[heavyBytes:]
		default:
			b = b[heavyBytes:]
		}
	}
	return false
}

// spreadHeavyFn is spreadFn where there are heavy owners: it sends examples with their patterns to
// their other owners, those with heavy owners also to their own bucket as a list of one, and counts
// copies by pattern.
type spreadHeavyFn struct {
	Spec spec

	heavy           map[string]uint16
	shares, selves  *packed.Packer
	patterns        map[string]uint64
	pattern         []uint16
	owners          [][]byte // of an example that are not heavy
	record, written []byte
}

func (f *spreadHeavyFn) StartBundle(_ func(*[]byte) bool, _, _, _ packed.Emit) {
	f.heavy = nil
	f.shares, f.selves = f.Spec.packer(0), f.Spec.packer(0)
	f.patterns = make(map[string]uint64)
}

func (f *spreadHeavyFn) ProcessElement(
	bucket uint32,
	chunk []byte,
	heavy func(*[]byte) bool,
	shares, selves, patterns func(uint32, []byte),
) (err error) {
	if f.heavy == nil {
		if f.heavy, err = heavyOwners(heavy); err != nil {
			return err
		}
	}
	return packed.Records(chunk, 0, func(example []byte) error {
		if len(f.patterns) >= patternsHeld {
			f.emitPatterns(patterns)
		}
		return f.example(bucket, example, shares, selves)
	})
}

func (f *spreadHeavyFn) example(bucket uint32, example []byte, shares, selves packed.Emit) error {
	place, copies := readCount(example, 4), readCount(example[4:], 4)
	f.pattern, f.owners = f.pattern[:0], f.owners[:0]
	err := f.Spec.eachOwner(example[exampleHead:], func(id []byte) {
		f.record = f.Spec.appendOwner(f.record[:0], id)
		if h, is := f.heavy[string(f.record)]; is {
			f.pattern = append(f.pattern, h)
		} else {
			f.owners = append(f.owners, id)
		}
	})
	if err != nil {
		return err
	}
	slices.Sort(f.pattern)
	member := func(b []byte) []byte {
		b = appendNumber(b, newNumber(bucket, place))
		return appendPattern(appendCount(b, f.Spec.countBytes(), copies), f.pattern)
	}
	for _, id := range f.owners {
		f.record = f.Spec.appendOwner(f.record[:0], id)
		to := f.Spec.ownerBucket(f.record)
		f.record = member(f.record)
		f.shares.Add(to, f.record, shares)
	}
	if len(f.pattern) > 0 {
		f.record = member(f.record[:0])
		f.selves.Add(bucket, f.record, selves)
		f.written = appendPattern(f.written[:0], f.pattern)
		f.patterns[string(f.written)] += uint64(copies)
	}
	return nil
}

func (f *spreadHeavyFn) emitPatterns(emit packed.Emit) {
	for p, copies := range f.patterns {
		emit(0, append(binary.BigEndian.AppendUint64(nil, copies), p...))
	}
	clear(f.patterns)
}

func (f *spreadHeavyFn) FinishBundle(
	ctx context.Context,
	_ func(*[]byte) bool,
	shares, selves, patterns func(uint32, []byte),
) error {
	err := cmp.Or(f.shares.Flush(shares), f.selves.Flush(selves))
	f.emitPatterns(patterns)
	sharesPacked.Add(ctx, f.shares.Packed())
	listsPacked.Add(ctx, f.selves.Packed())
	return err
}

// patternsFn adds up the copies of each pattern, in one worker, and counts how much each heavy
// owner keeps.
type patternsFn struct{}

func (*patternsFn) ProcessElement(
	_ uint32,
	parts func(*[]byte) bool,
	patterns func([]byte),
	counts func(uint32, []byte),
) error {
	copies := make(map[string]uint64)
	for part := []byte(nil); parts(&part); {
		if len(part) < 8+2*heavyBytes {
			return errRecord
		}
		copies[string(part[8:])] += binary.BigEndian.Uint64(part)
	}
	kept := make(map[uint16]int64)
	for p, n := range copies {
		patterns(append(binary.BigEndian.AppendUint64(nil, n), p...))
		for owners := patternOwners([]byte(p)); len(owners) > 0; owners = owners[heavyBytes:] {
			kept[binary.BigEndian.Uint16(owners)] += int64(n)
		}
	}
	t := newTally()
	for _, n := range kept {
		t.kept[n]++
	}
	return t.emit(counts)
}

// patterns are the patterns of all examples.
type patterns struct {
	copies []uint64
	with   map[uint16][]int  // the patterns that have a heavy owner
	unions map[string]uint64 // copies with a pattern that meets a given one, for those asked for
	seen   []int             // by pattern: 1 + the union that it was counted in last
}

func newPatterns(side func(*[]byte) bool) (*patterns, error) {
	p := &patterns{with: make(map[uint16][]int), unions: make(map[string]uint64)}
	for r := []byte(nil); side(&r); r = nil {
		if len(r) < 8+2*heavyBytes {
			return nil, errRecord
		}
		for owners := patternOwners(r[8:]); len(owners) >= heavyBytes; owners = owners[heavyBytes:] {
			h := binary.BigEndian.Uint16(owners)
			p.with[h] = append(p.with[h], len(p.copies))
		}
		p.copies = append(p.copies, binary.BigEndian.Uint64(r))
	}
	p.seen = make([]int, len(p.copies))
	return p, nil
}

// union returns how many copies have a pattern that meets this one, which is without its counts.
func (p *patterns) union(pattern string) (copies int64) {
	if n, ok := p.unions[pattern]; ok {
		return int64(n)
	}
	union := uint64(0)
	for at := 0; at < len(pattern); at += heavyBytes {
		for _, i := range p.with[binary.BigEndian.Uint16([]byte(pattern[at:at+heavyBytes]))] {
			if p.seen[i] != len(p.unions)+1 {
				p.seen[i] = len(p.unions) + 1
				union += p.copies[i]
			}
		}
	}
	p.unions[pattern] = union
	return int64(union)
}

// sizeHeavyFn is sizeFn where there are heavy owners.
type sizeHeavyFn struct {
	sizeFn

	patterns *patterns
}

func (f *sizeHeavyFn) StartBundle(_ func(*[]byte) bool, a, b packed.Emit) {
	f.patterns = nil
	f.sizeFn.StartBundle(a, b)
}

func (f *sizeHeavyFn) ProcessElement(
	bucket uint32,
	lists, patterns func(*[]byte) bool,
	tooLarge, _ func(uint32, []byte),
) (err error) {
	if f.patterns == nil {
		if f.patterns, err = newPatterns(patterns); err != nil {
			return err
		}
	}
	return f.sizes(bucket, lists, f.patterns, tooLarge)
}

func (f *sizeHeavyFn) FinishBundle(_ func(*[]byte) bool, tooLarge, counts func(uint32, []byte)) error {
	return f.sizeFn.FinishBundle(tooLarge, counts)
}

// heavyNeighborhoods is the part of neighborhoods before lists: it returns shares, by owner, of the
// examples of owners that are not heavy, lists of one, the patterns, and counts.
func heavyNeighborhoods(
	s beam.Scope,
	spec spec,
	kept, heavy beam.PCollection,
) (shares, selves, all, counts beam.PCollection) {
	s = s.Scope("heavy")
	shares, selves, parts := beam.ParDo3(s, &spreadHeavyFn{Spec: spec}, kept, beam.SideInput{Input: heavy})
	all, counts = beam.ParDo2(s, &patternsFn{}, beam.GroupByKey(s, parts))
	return shares, selves, all, counts
}
