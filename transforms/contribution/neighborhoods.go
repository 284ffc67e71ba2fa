package contribution

import (
	"cmp"
	"context"
	"math"
	"reflect"
	"slices"

	"minsep/transforms/internal/packed"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[spreadFn]())
	beam.RegisterDoFn(reflect.TypeFor[listFn]())
	beam.RegisterDoFn(reflect.TypeFor[sizeFn]())
}

// neighborhoods counts |N(e)| of the kept examples exactly: every owner's list of examples goes once to each bucket that
// holds one of them, and there an example's neighbourhood is the union of its owners' lists. It returns decisions
// to drop those above the bound, if there is one, and counts.
func neighborhoods(s beam.Scope, spec spec, kept, heavy beam.PCollection) (tooLarge beam.PCollection, counts []beam.PCollection) {
	s = s.Scope("neighborhoods")
	if !spec.mayBeHeavy() {
		shares := beam.GroupByKey(s.Scope("by owner"), beam.ParDo(s, &spreadFn{Spec: spec}, kept))
		lists, perOwner := beam.ParDo2(s, &listFn{Spec: spec}, shares)
		tooLarge, sizes := beam.ParDo2(s, &sizeFn{Spec: spec}, beam.GroupByKey(s.Scope("by example"), lists))
		return tooLarge, []beam.PCollection{perOwner, sizes}
	}
	shares, selves, patterns, perHeavy := heavyNeighborhoods(s, spec, kept, heavy)
	lists, perOwner := beam.ParDo2(s, &listFn{Spec: spec}, beam.GroupByKey(s.Scope("by owner"), shares))
	tooLarge, sizes := beam.ParDo2(s, &sizeHeavyFn{sizeFn: sizeFn{Spec: spec}},
		beam.GroupByKey(s.Scope("by example"), beam.Flatten(s, lists, selves)), beam.SideInput{Input: patterns})
	return tooLarge, []beam.PCollection{perOwner, sizes, perHeavy}
}

// spreadFn sends every kept example to its owners.
type spreadFn struct {
	Spec spec

	packer *packed.Packer
	record []byte
}

func (f *spreadFn) StartBundle(packed.Emit) {
	f.packer = f.Spec.packer(f.Spec.shareWidth())
}

func (f *spreadFn) ProcessElement(bucket uint32, chunk []byte, emit func(uint32, []byte)) error {
	size := f.Spec.countBytes()
	return packed.Records(chunk, 0, func(example []byte) error {
		place, copies := readCount(example, 4), readCount(example[4:], 4)
		return f.Spec.eachOwner(example[exampleHead:], func(id []byte) {
			f.record = f.Spec.appendOwner(f.record[:0], id)
			to := f.Spec.ownerBucket(f.record)
			f.record = appendNumber(f.record, newNumber(bucket, place))
			f.record = appendCount(f.record, size, copies)
			f.packer.Add(to, f.record, emit)
		})
	})
}

func (f *spreadFn) FinishBundle(ctx context.Context, emit func(uint32, []byte)) error {
	err := f.packer.Flush(emit)
	sharesPacked.Add(ctx, f.packer.Packed())
	return err
}

// listFn makes the owners' lists, numbers and copies by number, and counts how much each owner keeps. A list of one
// example tells it nothing and is not sent.
type listFn struct {
	Spec spec

	packer *packed.Packer
	counts tally
	list   []byte
}

func (f *listFn) StartBundle(_, _ packed.Emit) {
	f.packer = f.Spec.packer(0)
	f.counts = newTally()
}

func (f *listFn) ProcessElement(_ uint32, chunks func(*[]byte) bool, lists, _ func(uint32, []byte)) error {
	size := f.Spec.countBytes()
	total, members := int64(0), 0
	return f.Spec.sortAndClose(f.Spec.shareWidth(), chunks, func(s *packed.Sorter) error {
		return eachGroup(s, f.Spec.shareOwner,
			func(share []byte, n int, first bool) error {
				if first {
					f.list, total, members = f.list[:0], 0, 0
				}
				f.list = append(f.list, share[n:]...)
				total += int64(readCount(share[n+numberBytes:], size))
				members++
				return nil
			},
			func() error {
				f.counts.kept[total]++
				if members > 1 {
					return f.send(lists)
				}
				return nil
			})
	})
}

// send sends the list to the buckets of its examples, which are in order.
func (f *listFn) send(emit packed.Emit) error {
	last := int64(-1)
	for rest := f.list; len(rest) > 0; {
		n, err := f.Spec.memberLen(rest)
		if err != nil {
			return err
		}
		if b := readNumber(rest).bucket(); int64(b) != last {
			f.packer.Add(b, f.list, emit)
			last = int64(b)
		}
		rest = rest[n:]
	}
	return nil
}

func (f *listFn) FinishBundle(ctx context.Context, lists, counts func(uint32, []byte)) error {
	err := f.packer.Flush(lists)
	listsPacked.Add(ctx, f.packer.Packed())
	return cmp.Or(err, f.counts.emit(counts))
}

// sizeFn counts the neighbourhoods of the examples of a bucket, correcting the count that joinFn made for examples alone.
type sizeFn struct {
	Spec spec

	packer *packed.Packer
	counts tally
	record []byte
}

func (f *sizeFn) StartBundle(_, _ packed.Emit) {
	f.packer = f.Spec.packer(decisionBytes)
	f.counts = newTally()
}

func (f *sizeFn) ProcessElement(bucket uint32, chunks func(*[]byte) bool, tooLarge, _ func(uint32, []byte)) error {
	return f.sizes(bucket, chunks, nil, tooLarge)
}

// sizes counts with the patterns of heavy owners, or without any.
func (f *sizeFn) sizes(bucket uint32, chunks func(*[]byte) bool, p *patterns, tooLarge packed.Emit) error {
	h, err := newHood(&f.Spec, bucket, chunks, p)
	if err != nil {
		return err
	}
	bound := int64(f.Spec.Bound.MaxNeighborhood)
	if bound == 0 {
		bound = math.MaxInt64
	}
	h.each(func(place, copies uint32, size int64) {
		f.counts.sizes[int64(copies)] -= int64(copies)
		f.counts.sizes[size] += int64(copies)
		if size > bound {
			f.record = appendDecision(f.record[:0], place, 0)
			f.packer.Add(bucket, f.record, tooLarge)
		}
	})
	return nil
}

func (f *sizeFn) FinishBundle(tooLarge, counts func(uint32, []byte)) error {
	return cmp.Or(f.packer.Flush(tooLarge), f.counts.emit(counts))
}

// member is an example of an owner's list.
type member struct {
	example number
	copies  uint32
	pattern uint32 // of its heavy owners: its number in hood.patterns
}

// hood holds the lists that reach one bucket.
type hood struct {
	members []member
	lists   []list
	local   []incidence // sorted by place
	others  []member

	all      *patterns // of all examples; nil if there are no heavy owners
	patterns []string  // that occur, the first one empty
}

// list is a part of the members of a hood, and the copies in it.
type list struct {
	start, end int
	copies     int64
}

// incidence says that the example at a place of the bucket is in a list.
type incidence struct{ place, copies, pattern, list uint32 }

func newHood(s *spec, bucket uint32, chunks func(*[]byte) bool, all *patterns) (*hood, error) {
	h := &hood{all: all, patterns: []string{""}}
	size := s.countBytes()
	numbers := make(map[string]uint32)
	var chunk []byte
	for chunks(&chunk) {
		err := packed.Records(chunk, 0, func(record []byte) error {
			l := list{start: len(h.members)}
			for len(record) > 0 {
				n, err := s.memberLen(record)
				if err != nil {
					return err
				}
				m := member{example: readNumber(record), copies: readCount(record[numberBytes:], size)}
				if p := record[numberBytes+size : n]; len(p) > 2*heavyBytes {
					p = patternOwners(p)
					var seen bool
					if m.pattern, seen = numbers[string(p)]; !seen {
						m.pattern = uint32(len(h.patterns))
						numbers[string(p)] = m.pattern
						h.patterns = append(h.patterns, string(p))
					}
				}
				h.members = append(h.members, m)
				l.copies += int64(m.copies)
				if m.example.bucket() == bucket {
					h.local = append(h.local, incidence{m.example.place(), m.copies, m.pattern, uint32(len(h.lists))})
				}
				record = record[n:]
			}
			l.end = len(h.members)
			h.lists = append(h.lists, l)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(h.local, func(a, b incidence) int { return cmp.Compare(a.place, b.place) })
	return h, nil
}

// each calls f for every local example that is in a list, with the size of its neighbourhood.
func (h *hood) each(f func(place, copies uint32, size int64)) {
	for start := 0; start < len(h.local); {
		end := start + 1
		for end < len(h.local) && h.local[end].place == h.local[start].place {
			end++
		}
		size := h.union(h.local[start:end])
		f(h.local[start].place, h.local[start].copies, size)
		start = end
	}
}

// union returns the number of copies of the examples in the union of lists, and of the lists of the heavy owners of
// the example that the lists are of.
func (h *hood) union(of []incidence) int64 {
	if of[0].pattern > 0 {
		pattern := h.patterns[of[0].pattern]
		h.gather(of, -1)
		size := h.all.union(pattern)
		for i, m := range h.others {
			if (i == 0 || m.example != h.others[i-1].example) && !meet(pattern, h.patterns[m.pattern]) {
				size += int64(m.copies)
			}
		}
		return size
	}
	// The largest list, and of the others what is not in it.
	largest := of[0].list
	for _, i := range of[1:] {
		if l, m := h.lists[i.list], h.lists[largest]; l.end-l.start > m.end-m.start {
			largest = i.list
		}
	}
	base := h.lists[largest]
	size := base.copies
	if len(of) == 1 {
		return size
	}
	h.gather(of, int64(largest))
	for i, m := range h.others {
		if i > 0 && m.example == h.others[i-1].example {
			continue
		}
		if _, in := slices.BinarySearchFunc(h.members[base.start:base.end], m, byExample); !in {
			size += int64(m.copies)
		}
	}
	return size
}

// gather sorts the members of the lists, but for one, as h.others.
func (h *hood) gather(of []incidence, but int64) {
	h.others = h.others[:0]
	for _, i := range of {
		if l := h.lists[i.list]; int64(i.list) != but {
			h.others = append(h.others, h.members[l.start:l.end]...)
		}
	}
	slices.SortFunc(h.others, byExample)
}

func byExample(a, b member) int { return cmp.Compare(a.example, b.example) }
