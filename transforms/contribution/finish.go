package contribution

import (
	"maps"
	"slices"

	"minsep/sampling/ownergraph"
	"minsep/transforms/internal/packed"
)

// finishFn decides, in one worker, every example that the rounds left undecided, by the reference's own greedy pass.
type finishFn struct {
	Spec spec

	packer *packed.Packer
}

func (f *finishFn) StartBundle(packed.Emit) {
	f.packer = packed.NewPacker(decisionBytes, f.Spec.Buckets)
}

func (f *finishFn) ProcessElement(_ uint32, chunks func(*[]byte) bool, emit func(uint32, []byte)) error {
	// A chunk holds verdicts on examples of one bucket, and the order of buckets is that of priorities.
	byBucket := make(map[uint32][][]byte)
	var chunk []byte
	for chunks(&chunk) {
		if len(chunk) < f.Spec.verdictWidth() {
			return errRecord
		}
		b := readNumber(chunk).bucket()
		byBucket[b] = append(byBucket[b], chunk)
	}
	r := remainder{size: f.Spec.countBytes(), owners: ownergraph.Lists{Starts: []uint32{0}}}
	for _, b := range slices.Sorted(maps.Keys(byBucket)) {
		if err := f.load(&r, byBucket[b]); err != nil {
			return err
		}
		delete(byBucket, b)
	}
	most := f.Spec.Bound.MaxCopies()
	order := make([]uint32, len(r.examples))
	for i := range order {
		order[i] = uint32(i)
	}
	ownergraph.Fill(&r.owners, order, r.rooms, r.copies, most)
	var record [decisionBytes]byte
	for i, example := range r.examples {
		if r.copies[i] < most {
			f.packer.Add(example.bucket(), appendDecision(record[:0], example.place(), r.copies[i]), emit)
		}
	}
	return nil
}

// load adds the verdicts of one bucket to r.
func (f *finishFn) load(r *remainder, chunks [][]byte) error {
	next := func(chunk *[]byte) bool {
		if len(chunks) == 0 {
			return false
		}
		*chunk, chunks = chunks[0], chunks[1:]
		return true
	}
	return f.Spec.sortAndClose(f.Spec.verdictWidth(), next, func(s *packed.Sorter) error { return s.Each(r.add) })
}

func (f *finishFn) FinishBundle(emit func(uint32, []byte)) { f.packer.Flush(emit) }

// remainder is the graph of the undecided examples, numbered by priority, and their owners, numbered as they occur.
type remainder struct {
	size     int // of a count in bytes
	examples []number
	copies   []uint32
	owners   ownergraph.Lists
	rooms    []uint32
	numbers  [][]uint32 // by bucket and place of an owner: 1 + its number, or 0
}

// add takes the next verdict in the order of examples.
func (r *remainder) add(verdict []byte) error {
	example, owner := readNumber(verdict), readNumber(verdict[numberBytes:])
	counts := verdict[2*numberBytes:]
	if n := len(r.examples); n == 0 || r.examples[n-1] != example {
		r.examples = append(r.examples, example)
		r.copies = append(r.copies, readCount(counts[2*r.size:], r.size))
		r.owners.Starts = append(r.owners.Starts, uint32(len(r.owners.Items)))
	}
	if len(r.owners.Items) == 1<<32-2 {
		return ownergraph.ErrTooLarge
	}
	for int(owner.bucket()) >= len(r.numbers) {
		r.numbers = append(r.numbers, nil)
	}
	places := &r.numbers[owner.bucket()]
	if missing := int(owner.place()) + 1 - len(*places); missing > 0 {
		*places = append(*places, make([]uint32, missing)...)
	}
	if (*places)[owner.place()] == 0 {
		r.rooms = append(r.rooms, readCount(counts, r.size))
		(*places)[owner.place()] = uint32(len(r.rooms))
	}
	r.owners.Items = append(r.owners.Items, (*places)[owner.place()]-1)
	r.owners.Starts[len(r.examples)] = uint32(len(r.owners.Items))
	return nil
}
