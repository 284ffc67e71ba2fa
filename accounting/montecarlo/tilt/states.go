package tilt

import "slices"

// states numbers the multisets that the recursion F5.3 runs over and holds its transitions, which
// are the same at every step.
//
// θ replicas of one example's participation process run side by side. At a step, before its coins
// are thrown, replica l has r_l ∈ 0..b-1 blocked steps left; 0 means free. Only multisets with a
// free replica are numbered, by their other k = θ-1 entries in descending order: when all replicas
// are blocked nothing happens until the first is free again, and the state then, so many steps
// later, stands for it. There are C(b+θ-2, θ-1) of them; number 0 is "all free".
type states struct {
	theta, sep int
	count      int
	binomial   multisets
	rest       []uint16 // count × (θ-1): the entries of each state
	list       []state  // in an order that keeps the reads of a step close together
	listed     []uint16 // rest, in the order of list
	moves      []move   // of list[i]: moves[list[i].first : list[i].first+free+1]
	several    []int    // of list: those with more than one free replica
}

// state is one multiset; free counts its free replicas, 1..θ. Its move j is "j free replicas
// participate".
type state struct {
	number, first uint32
	free          uint8
}

// move leads to state `number`, lag ≥ 1 steps later.
type move struct{ number, lag uint32 }

func newStates(theta, sep int) *states {
	s := &states{theta: theta, sep: sep, binomial: newMultisets(theta, sep)}
	k := theta - 1
	s.count = s.binomial[k][sep]
	s.rest = make([]uint16, s.count*k)
	entries := make([]uint16, theta)
	eachDescending(entries[:k], sep-1, func() {
		copy(s.rest[s.number(entries[:k])*k:], entries[:k])
	})
	order := make([]uint32, s.count)
	for i := range order {
		order[i] = uint32(i)
	}
	// States with the same next release read the same later slice, and with ascending numbers
	// adjacent entries of it.
	slices.SortStableFunc(order, func(a, b uint32) int { return s.release(int(a)) - s.release(int(b)) })
	s.list = make([]state, s.count)
	for i, number := range order {
		free := s.free(int(number))
		if free > 1 {
			s.several = append(s.several, i)
		}
		s.listed = append(s.listed, s.entries(int(number))...)
		s.list[i] = state{number, uint32(len(s.moves)), uint8(free)}
		for j := range free + 1 {
			next, lag := s.after(entries, int(number), j)
			s.moves = append(s.moves, move{uint32(next), uint32(lag)})
		}
	}
	return s
}

// number is the rank of a multiset given in descending order, among those of its size.
func (s *states) number(descending []uint16) int {
	return rank(s.binomial, len(descending), descending)
}

// entries returns the blocked steps of a state's replicas, descending, without the one that is free
// in all.
func (s *states) entries(number int) []uint16 {
	k := s.theta - 1
	return s.rest[number*k : number*k+k]
}

// free counts the free replicas of a state.
func (s *states) free(number int) int {
	e := s.entries(number)
	free := 1
	for l := len(e) - 1; l >= 0 && e[l] == 0; l-- {
		free++
	}
	return free
}

// release is the number of steps until the next blocked replica of a state is free; 0 when none is
// blocked.
func (s *states) release(number int) int {
	e := s.entries(number)
	for l := len(e) - 1; l >= 0; l-- {
		if e[l] > 0 {
			return int(e[l])
		}
	}
	return 0
}

// after returns the state that follows when j free replicas participate, and how many steps later.
// It uses scratch, θ entries.
func (s *states) after(scratch []uint16, number, j int) (next, lag int) {
	rest := s.entries(number)
	all := scratch[:0]
	for range j {
		all = append(all, uint16(s.sep-1))
	}
	for _, r := range rest { // descending, and all below sep-1 after the decrement
		if r > 0 {
			all = append(all, r-1)
		}
	}
	for len(all) < s.theta {
		all = append(all, 0)
	}
	next, wait := s.settle(all)
	return next, 1 + wait
}

// settle waits until one of θ replicas, descending, is free and returns the state then.
func (s *states) settle(all []uint16) (next, wait int) {
	last := all[s.theta-1]
	for l := range all {
		all[l] -= last
	}
	return s.number(all[:s.theta-1]), int(last)
}
