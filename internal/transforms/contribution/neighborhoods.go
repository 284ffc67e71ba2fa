package contribution

import (
	"cmp"
	"context"
	"math"
	"reflect"
	"slices"

	"minsep/internal/packed"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[spreadFn]())
	beam.RegisterDoFn(reflect.TypeFor[listFn]())
	beam.RegisterDoFn(reflect.TypeFor[sizeFn]())
}

// neighborhoods counts |N(e)| of the kept examples exactly: every owner's list of examples goes
// once to each bucket that holds one of them, and there an example's neighbourhood is the union of
// its owners' lists. It returns decisions to drop those above the bound, if there is one, and
// counts.
func neighborhoods(
	s beam.Scope,
	spec spec,
	kept, heavy beam.PCollection,
) (tooLarge beam.PCollection, counts []beam.PCollection) {
	// An owner of very many examples would send its list to as many buckets. Where there may be
	// such owners, their lists are not sent: examples carry the pattern of their heavy owners
	// instead.
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

// listFn makes the owners' lists, numbers and copies by number, and counts how much each owner
// keeps. A list of one example tells it nothing and is not sent.
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
		// Numbers begin with the bucket, so that the examples of a bucket are neighbours in the
		// list.
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

// sizeFn counts the neighbourhoods of the examples of a bucket, correcting the count that joinFn
// made for examples alone.
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
	h := newNeighborhoodCounter(&f.Spec, bucket, p)
	err := h.read(chunks)
	if err == nil {
		err = h.count()
	}
	if err = cmp.Or(err, h.sorter.Close()); err != nil {
		return err
	}
	bound := int64(f.Spec.Bound.MaxNeighborhood)
	if bound == 0 {
		bound = math.MaxInt64
	}
	for _, e := range h.sizes {
		// joinFn has counted the example as its own only neighbour; the histogram takes that back.
		f.counts.sizes[int64(e.copies)] -= int64(e.copies)
		f.counts.sizes[e.size] += int64(e.copies)
		if e.size > bound {
			f.record = appendDecision(f.record[:0], e.place, 0)
			f.packer.Add(bucket, f.record, tooLarge)
		}
	}
	return nil
}

func (f *sizeFn) FinishBundle(tooLarge, counts func(uint32, []byte)) error {
	return cmp.Or(f.packer.Flush(tooLarge), f.counts.emit(counts))
}

// member is an example of an owner's list.
type member struct {
	example number
	copies  uint32
	pattern uint32 // of its heavy owners: its number in neighborhoodCounter.patterns
}

// neighborhoodCounter counts the neighbourhoods in one bucket, from the lists that reach it. When
// the lists have too many members for memory, the members are sorted by example, through files, and
// neighbourhoods are counted over one range of examples after the other.
type neighborhoodCounter struct {
	spec   *spec
	bucket uint32
	most   int // members in memory

	members []member // of the lists, back to back, each list's by example
	lists   []list
	local   []incidence // sorted by place
	others  []member
	sizes   []sizeOf // by place, when counted

	sorter  *packed.Sorter // of written members: example's number, list, copies, pattern
	written int            // lists with their members written

	all      *patterns // of all examples; nil if there are no heavy owners
	patterns []string  // that occur, the first one empty
	numbers  map[string]uint32
}

const (
	memberBytes   = 16                  // in memory
	writtenMember = numberBytes + 3*4   // in the sorter
	membersHeld   = packed.DefaultLimit // bytes
)

// list is a part of the members that a neighborhoodCounter holds, and the copies in it.
type list struct {
	start, end int
	copies     int64
}

// incidence says that the example at a place of the bucket is in a list.
type incidence struct{ place, copies, pattern, list uint32 }

// sizeOf is the size of the neighbourhood of an example.
type sizeOf struct {
	place, copies uint32
	size          int64
}

func newNeighborhoodCounter(s *spec, bucket uint32, all *patterns) *neighborhoodCounter {
	memory := s.SortMemory
	if memory == 0 {
		memory = membersHeld
	}
	return &neighborhoodCounter{
		spec:     s,
		bucket:   bucket,
		most:     max(1, memory/memberBytes),
		sorter:   s.sorter(writtenMember),
		all:      all,
		patterns: []string{""},
		numbers:  make(map[string]uint32),
	}
}

// read reads the lists.
func (h *neighborhoodCounter) read(chunks func(*[]byte) bool) error {
	var chunk []byte
	for chunks(&chunk) {
		err := packed.Records(chunk, 0, func(record []byte) error {
			l := list{start: len(h.members)}
			for len(record) > 0 {
				m, n, err := h.member(record)
				if err != nil {
					return err
				}
				h.members = append(h.members, m)
				l.copies += int64(m.copies)
				// A list has the owner's examples in all buckets: here the local ones are counted,
				// and the others are only their neighbours.
				if m.example.bucket() == h.bucket {
					h.local = append(
						h.local,
						incidence{m.example.place(), m.copies, m.pattern, uint32(len(h.lists))},
					)
				}
				record = record[n:]
			}
			l.end = len(h.members)
			h.lists = append(h.lists, l)
			if len(h.members) > h.most {
				return h.write()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(h.local, func(a, b incidence) int { return cmp.Compare(a.place, b.place) })
	return nil
}

// member reads the member that a list begins with, of n bytes.
func (h *neighborhoodCounter) member(record []byte) (m member, n int, err error) {
	if n, err = h.spec.memberLen(record); err != nil {
		return m, n, err
	}
	size := h.spec.countBytes()
	m = member{example: readNumber(record), copies: readCount(record[numberBytes:], size)}
	if p := record[numberBytes+size : n]; len(p) > 2*heavyBytes {
		p = patternOwners(p)
		var seen bool
		if m.pattern, seen = h.numbers[string(p)]; !seen {
			m.pattern = uint32(len(h.patterns))
			h.numbers[string(p)] = m.pattern
			h.patterns = append(h.patterns, string(p))
		}
	}
	return m, n, nil
}

// write moves the members to the sorter.
func (h *neighborhoodCounter) write() error {
	chunk := make([]byte, 0, packed.ChunkSize)
	for ; h.written < len(h.lists); h.written++ {
		l := &h.lists[h.written]
		for _, m := range h.members[l.start:l.end] {
			if len(chunk)+writtenMember > cap(chunk) {
				if err := h.sorter.Add(chunk); err != nil {
					return err
				}
				chunk = make([]byte, 0, packed.ChunkSize)
			}
			chunk = appendNumber(chunk, m.example)
			for _, v := range []uint32{uint32(h.written), m.copies, m.pattern} {
				chunk = appendCount(chunk, 4, v)
			}
		}
	}
	h.members = h.members[:0]
	return h.sorter.Add(chunk)
}

// count counts the neighbourhoods.
func (h *neighborhoodCounter) count() error {
	for i, e := range h.local {
		if i == 0 || e.place != h.local[i-1].place {
			h.sizes = append(h.sizes, sizeOf{place: e.place, copies: e.copies})
			if e.pattern > 0 {
				h.sizes[len(h.sizes)-1].size = h.all.union(h.patterns[e.pattern])
			}
		}
	}
	if h.sorter.Len() == 0 { // all members are in memory
		h.addUnions()
		return nil
	}
	if err := h.write(); err != nil {
		return err
	}
	var part []written
	flush := func() {
		h.load(part)
		h.addUnions()
		part = part[:0]
	}
	err := h.sorter.Each(func(r []byte) error {
		w := written{
			member{readNumber(r), readCount(r[numberBytes+4:], 4), readCount(r[numberBytes+8:], 4)},
			readCount(r[numberBytes:], 4),
		}
		// A range ends between two examples: so each is in one range, and the unions of the ranges
		// add up.
		if len(part) > h.most/4 && w.example != part[len(part)-1].example {
			flush()
		}
		part = append(part, w)
		return nil
	})
	flush()
	return err
}

// written is a member of a list.
type written struct {
	member
	list uint32
}

// load replaces the members in memory by a range of them, ordered by example.
func (h *neighborhoodCounter) load(part []written) {
	for i := range h.lists {
		h.lists[i] = list{}
	}
	for _, m := range part {
		h.lists[m.list].end++
		h.lists[m.list].copies += int64(m.copies)
	}
	at := 0
	for i := range h.lists {
		l := &h.lists[i]
		l.start, at = at, at+l.end
		l.end = l.start
	}
	h.members = slices.Grow(h.members[:0], len(part))[:len(part)]
	for _, m := range part {
		l := &h.lists[m.list]
		h.members[l.end] = m.member
		l.end++
	}
}

// addUnions adds to the size of every local example the copies in memory that are in its lists.
func (h *neighborhoodCounter) addUnions() {
	e := 0
	for start := 0; start < len(h.local); e++ {
		end := start + 1
		for end < len(h.local) && h.local[end].place == h.local[start].place {
			end++
		}
		h.sizes[e].size += h.union(h.local[start:end])
		start = end
	}
}

// union returns the number of copies of the examples in the union of lists, but for those that
// share a heavy owner with the example that the lists are of.
func (h *neighborhoodCounter) union(of []incidence) int64 {
	if of[0].pattern > 0 {
		pattern := h.patterns[of[0].pattern]
		h.gather(of, -1)
		size := int64(0)
		for i, m := range h.others {
			if (i == 0 || m.example != h.others[i-1].example) && !meet(pattern, h.patterns[m.pattern]) {
				size += int64(m.copies)
			}
		}
		return size
	}
	// The union is the largest list, and those members of the other lists that are not in it. So the
	// list of a hub is not walked again for each of its examples: its number of copies is enough.
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
func (h *neighborhoodCounter) gather(of []incidence, but int64) {
	h.others = h.others[:0]
	for _, i := range of {
		if l := h.lists[i.list]; int64(i.list) != but {
			h.others = append(h.others, h.members[l.start:l.end]...)
		}
	}
	slices.SortFunc(h.others, byExample)
}

func byExample(a, b member) int { return cmp.Compare(a.example, b.example) }
