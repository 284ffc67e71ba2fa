package contribution

import (
	"cmp"
	"math"

	"minsep/internal/packed"
)

// finishFn decides, in one worker, every example that the rounds left undecided, by the
// sequential greedy pass itself. The verdicts are sorted by example, and so by priority, and
// read pass by pass: from files when memory does not hold them. Only the room of each owner is
// in memory for certain, about 40 bytes.
type finishFn struct {
	Spec spec

	packer *packed.Packer
}

func (f *finishFn) StartBundle(packed.Emit) {
	f.packer = f.Spec.packer(decisionBytes)
}

func (f *finishFn) ProcessElement(_ uint32, chunks func(*[]byte) bool, emit func(uint32, []byte)) (err error) {
	g := greedy{spec: &f.Spec, rooms: map[number]uint32{}, refuse: func(example turn, copies uint32) {
		var record [decisionBytes]byte
		of := example.number()
		f.packer.Add(of.bucket(), appendDecision(record[:0], of.place(), copies), emit)
	}}
	for _, s := range []*packed.Spool{&g.owners, &g.live, &g.next} {
		*s = f.Spec.spool(f.Spec.verdictWidth())
		defer func() { err = cmp.Or(err, s.Close()) }()
	}
	err = f.Spec.sortAndClose(f.Spec.verdictWidth(), chunks, func(s *packed.Sorter) error { return g.pass(s, 0) })
	// A pass without an example that waits for it would change nothing: it is left out.
	for pass := g.least; err == nil && g.next.Len() > 0; pass = g.least {
		g.live, g.next = g.next, g.live
		g.next.Reset()
		err = g.pass(&g.live, pass)
	}
	return err
}

func (f *finishFn) FinishBundle(emit func(uint32, []byte)) error {
	return f.packer.Flush(emit)
}

// greedy is the state of the greedy pass over undecided examples, see [ownergraph.Bound]: an
// example of c copies waits for pass c.
type greedy struct {
	spec   *spec
	rooms  map[number]uint32                 // by owner
	owners packed.Spool                      // of the current example: verdicts
	live   packed.Spool                      // verdicts on the examples that may get more copies, in order
	next   packed.Spool                      // those that may after this pass
	least  uint32                            // copies of an example of next
	refuse func(example turn, copies uint32) // takes the examples that get less than all copies
}

// pass considers the examples of so many copies.
func (g *greedy) pass(verdicts records, pass uint32) error {
	size, most := g.spec.countBytes(), g.spec.Bound.MaxCopies()
	var example turn
	var copies uint32
	var full bool
	g.least = math.MaxUint32
	return eachGroup(verdicts, fixedLen(turnBytes),
		func(verdict []byte, n int, first bool) error {
			counts := verdict[turnBytes+numberBytes:]
			if first {
				g.owners.Reset()
				example, copies, full = readTurn(verdict), readCount(counts[2*size:], size), false
			}
			// The rounds have taken room away already: a verdict has the room that its owner has
			// left.
			owner := readNumber(verdict[n:])
			room, seen := g.rooms[owner]
			if !seen {
				room = readCount(counts, size)
				g.rooms[owner] = room
			}
			full = full || room == 0
			return g.owners.Add(verdict)
		},
		func() error {
			took := copies == pass && !full
			switch {
			case copies == pass && full: // it is not asked again: room never grows
				g.refuse(example, copies)
				return nil
			case took:
				copies++
			}
			if copies < most {
				g.least = min(g.least, copies)
			}
			return g.owners.Each(func(verdict []byte) error {
				if took {
					g.rooms[readNumber(verdict[turnBytes:])]--
				}
				if copies == most {
					return nil
				}
				copy(verdict[turnBytes+numberBytes+2*size:], appendCount(nil, size, copies))
				return g.next.Add(verdict)
			})
		})
}
