package tuples

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"minsep/sampling"
)

// label is all of one example that matters from a step on: the point at which it may take part
// next, and the steps, latest first, at which it took part and whose columns may still overlap with
// later ones. Each has four bytes of past, so that labels can be compared.
//
// A merged label stands for the participations of one block: the example is free at a step from
// at.Step to last on, and past has the last step of the block. Other labels have last = at.Step.
type label struct {
	at   sampling.Point
	last int
	past string
}

func exactly(at sampling.Point, past string) label { return label{at, at.Step, past} }

// Freedom of a label at a step, in the order of labels.
const (
	isFree    = iota
	mayBeFree // a merged label
	waits
)

func (y label) freedom(i int) int {
	switch {
	case y.last <= i:
		return isFree
	case y.at.Step <= i:
		return mayBeFree
	}
	return waits
}

// compare puts free labels first, then those that may be free, and the longest wait last. It
// depends on where labels are to step i only, not on where they are in the run.
func (y label) compare(z label, i int) int {
	if y == z {
		return 0
	}
	if f, g := y.freedom(i), z.freedom(i); f != g {
		return cmp.Compare(f, g)
	} else if f == waits && y.at.Step != z.at.Step {
		return cmp.Compare(y.at.Step, z.at.Step)
	}
	return cmp.Or(
		cmp.Compare(y.last, z.last),
		cmp.Compare(y.at.Step, z.at.Step),
		cmp.Compare(y.at.State, z.at.State),
		strings.Compare(y.past, z.past),
	)
}

// after is the label before step i+1 if nothing happens at step i: columns of bands entries from
// steps before i+2-bands have ended.
func (y label) after(i, bands int) label {
	for last := len(y.past) - 4; last >= 0 && stepOf(y.past[last:]) < i+2-bands; last -= 4 {
		y.past = y.past[:last]
	}
	if y.at.Step < y.last && y.last == i+1 { // by now it is free, whenever in the block it took part
		y.at.Step = y.last
	}
	return y
}

// withStep is a past with a participation at step i added.
func withStep(past string, i int) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(i))) + past
}

func stepOf(past string) int { return int(binary.BigEndian.Uint32([]byte(past[:4]))) }

// wait is the number of steps from i on until the label may be free.
func (y label) wait(i int) int {
	if y.at.Step == sampling.Never {
		return sampling.Never
	}
	return max(0, y.at.Step-i)
}

// moved is the same label some steps later.
func (y label) moved(steps int) label {
	if y.at.Step < sampling.Never {
		y.at.Step += steps
		y.last += steps
	}
	past := []byte(y.past)
	for k := 0; k < len(past); k += 4 {
		binary.BigEndian.PutUint32(past[k:], uint32(stepOf(y.past[k:])+steps))
	}
	y.past = string(past)
	return y
}

// ages are how many steps before i its participations were, at least 1: the last step of the block
// of a merged label may be later.
func (y label) ages(i int) (ages []int) {
	for past := y.past; past != ""; past = past[4:] {
		ages = append(ages, max(1, i-stepOf(past)))
	}
	return ages
}

// pattern is how the labels before a step lead to those before the next one: label k to out[k], or
// to in[k] if it takes part. Steps of one pattern share it.
type pattern struct {
	free    int     // number of labels that are free: the first ones
	active  int     // number of labels that are free or may be: the first ones
	wakes   []int32 // of each active label: the free label that it becomes
	out, in []int32
}

// layout is a pattern with all else that matters of its labels.
type layout struct {
	*pattern
	wait   []int   // steps until each label may be free, in ascending order
	ages   [][]int // how many steps ago each label took part
	states []int   // of the free labels
}

// unrolled is a law laid out over the steps of a run.
type unrolled struct {
	law    law
	steps  []*layout
	prob   [][]float64             // of each step: the probability of each free label to take part
	start  []float64               // probability of each label before step 0
	merged [][]sampling.TableStart // and its starts
	block  int                     // steps of a block, 1 for exact labels
	labels int                     // the largest number of labels before a step
	reach  int                     // the largest number of steps from a step to the next at which a label is free
	gap    int                     // the least number of steps between two participations
	leaps  *leaps
}

// maxLabels bounds the labels of all steps that are listed, about five seconds. Moves number the
// labels of a step by 16 bits.
const (
	maxLabels = 3e7
	maxOfStep = math.MaxUint16
)

// unroller lists the labels of one step after the other.
type unroller struct {
	*unrolled
	bands      int
	list, next []label // before the step, and before the next one
	out, in    []label
	patterns   map[string]*pattern
	layouts    map[string]*layout
	key        []byte
}

// unroll follows all examples at once, in blocks of a number of steps.
func unroll(ctx context.Context, l law, n, bands, block int) (*unrolled, error) {
	u := &unroller{
		unrolled: &unrolled{
			law:   l,
			steps: make([]*layout, n),
			prob:  make([][]float64, n),
			block: block,
			reach: 1,
			gap:   n,
		},
		bands:    bands,
		patterns: map[string]*pattern{},
		layouts:  map[string]*layout{},
	}
	u.begin()
	var past []label // a period ago
	period := u.period()
	listed := 0
	for i := range n {
		if err := cmp.Or(ctx.Err(), u.step(i)); err != nil {
			return nil, err
		}
		if len(u.next) > maxOfStep {
			return nil, fmt.Errorf("%w: %d labels of a participation before step %d", ErrStates, len(u.next), i+1)
		}
		if listed += len(u.list); listed > maxLabels {
			return nil, fmt.Errorf("%w: %d labels of a participation up to step %d", ErrStates, listed, i)
		}
		u.list, u.next = u.next, u.list
		if period == 0 || (i+1)%period != 0 {
			continue
		}
		if slices.EqualFunc(past, u.list, func(y, z label) bool { return y.moved(period) == z }) {
			for k := i + 1; k < n; k++ {
				u.steps[k], u.prob[k] = u.steps[k-period], u.prob[k-period]
			}
			break
		}
		past = append(past[:0], u.list...)
	}
	u.leaps = newLeaps(u.unrolled)
	return u.unrolled, nil
}

// begin lists the starts. In blocks, starts of neighbouring steps have one label.
func (u *unroller) begin() {
	n := len(u.steps)
	starts := map[label][]sampling.TableStart{}
	for _, s := range u.law.Starts {
		y := exactly(sampling.Point{Step: s.Step, State: s.State}, "")
		if u.block > 1 && s.Step > 0 && s.Step < n {
			y.at.Step = max(1, s.Step/u.block*u.block)
			y.last = s.Step/u.block*u.block + u.block - 1
		}
		starts[y] = append(starts[y], s)
		u.list = append(u.list, y)
	}
	u.list = sorted(u.list, 0)
	for _, y := range u.list {
		sum := 0.0
		for _, s := range starts[y] {
			sum += s.Prob()
		}
		u.start, u.merged = append(u.start, sum), append(u.merged, starts[y])
	}
}

// step lists the labels before step i+1.
func (u *unroller) step(i int) error {
	n := len(u.steps)
	u.out, u.in = u.out[:0], u.in[:0]
	var prob []float64
	for _, y := range u.list {
		z := y.after(i, u.bands)
		if y.last == i {
			p, joins, stays, _ := u.law.next(y.at)
			took, err := u.took(y, i, joins)
			if err != nil {
				return err
			}
			switch {
			case p == 1:
				z = took // nobody stays
			case u.block > 1 && stays != (sampling.Point{Step: i + 1, State: y.at.State}) && i+1 < n:
				return fmt.Errorf("%w in blocks: free examples do not stay free", ErrTable)
			default:
				z = exactly(stays, z.past)
			}
			u.in, prob = append(u.in, took), append(prob, p)
		}
		u.out = append(u.out, z)
		if y.at.Step < n {
			u.reach = max(u.reach, y.wait(i)+1)
		}
	}
	u.next = append(append(u.next[:0], u.out...), u.in...)
	for _, y := range u.next {
		if y.freedom(i+1) == mayBeFree {
			u.next = append(u.next, exactly(sampling.Point{Step: i + 1, State: y.at.State}, ""))
		}
	}
	u.next = sorted(u.next, i+1)
	u.share(i, prob)
	return nil
}

// took is the label before step i+1 of a participation at step i that leads to a point.
func (u *unroller) took(y label, i int, joins sampling.Point) (label, error) {
	u.gap = min(u.gap, joins.Step-i)
	if u.block == 1 {
		return exactly(joins, withStep(y.past, i)).after(i, u.bands), nil
	}
	begin, end := u.blockOf(i)
	first := sampling.Point{Step: -1}
	var last sampling.Point
	for k := begin; k < end; k++ {
		_, at, _, reached := u.law.next(sampling.Point{Step: k, State: y.at.State})
		if !reached {
			continue
		}
		if first.Step < 0 {
			first, last = at, at
		}
		otherState := at.State != first.State && at.Step < sampling.Never
		if at.Step < last.Step || otherState || at.Step < end || at.Step-k < u.bands {
			return label{}, fmt.Errorf(
				"%w in blocks of %d steps: participations of a block do not lead on in order",
				ErrTable,
				u.block,
			)
		}
		last = at
	}
	return label{first, last.Step, withStep("", end-1)}.after(i, u.bands), nil
}

// blockOf is the block of a step. Blocks begin anew with every period of the law. The last one may
// end after the run, so that it is as those of other periods.
func (u *unrolled) blockOf(i int) (begin, end int) {
	period := u.law.period
	switch period {
	case 0:
		period = len(u.steps)
	case 1:
		period = math.MaxInt / 2
	}
	first := i - i%period
	begin = first + (i-first)/u.block*u.block
	return begin, min(begin+u.block, first+period)
}

// share sets the layout of step i, one that an earlier step has if there is an equal one.
func (u *unroller) share(i int, prob []float64) {
	key := u.key[:0]
	add := func(x int) { key = binary.AppendVarint(key, int64(x)) }
	out, in := indices(u.next, u.out, i+1), indices(u.next, u.in, i+1)
	var woken []label
	for _, y := range u.list {
		add(y.freedom(i))
		switch y.freedom(i) {
		case isFree:
			woken = append(woken, y)
		case mayBeFree:
			woken = append(woken, exactly(sampling.Point{Step: i, State: y.at.State}, ""))
		}
	}
	wakes := indices(u.list, woken, i)
	for _, k := range slices.Concat(out, in, wakes) {
		add(int(k))
	}
	shared := u.patterns[string(key)]
	if shared == nil {
		shared = &pattern{out: out, in: in, wakes: wakes, free: len(in), active: len(wakes)}
		u.patterns[string(key)] = shared
		u.labels = max(u.labels, len(u.list), len(u.next))
	}
	for _, y := range u.list {
		add(y.wait(i))
		if y.at.Step < sampling.Never {
			add(y.last - i)
		}
		add(y.at.State)
		add(len(y.past))
		for past := y.past; past != ""; past = past[4:] {
			add(i - stepOf(past))
		}
	}
	if u.steps[i] = u.layouts[string(key)]; u.steps[i] == nil {
		x := &layout{pattern: shared}
		for k, y := range u.list {
			x.wait, x.ages = append(x.wait, y.wait(i)), append(x.ages, y.ages(i))
			if k < shared.free {
				x.states = append(x.states, y.at.State)
			}
		}
		u.steps[i], u.layouts[string(key)] = x, x
	}
	if u.key = key; i > 0 && slices.Equal(prob, u.prob[i-1]) {
		prob = u.prob[i-1]
	}
	u.prob[i] = prob
}

// period is the number of steps after which the law and its blocks are the same again, 0 if there
// is none.
func (u *unrolled) period() int {
	if u.law.period == 1 {
		return u.block
	}
	return u.law.period
}

// sameAs says whether two steps have the same labels and probabilities.
func (u *unrolled) sameAs(i, k int) bool {
	p, q := u.prob[i], u.prob[k]
	return u.steps[i] == u.steps[k] && (len(p) == 0 || &p[0] == &q[0])
}

func sorted(list []label, i int) []label {
	slices.SortFunc(list, func(y, z label) int { return y.compare(z, i) })
	return slices.Compact(list)
}

// indices are the places of labels in a sorted list, which are mostly one after the other.
func indices(list, of []label, i int) []int32 {
	places := make([]int32, 0, len(of))
	guess := 0
	for _, y := range of {
		if guess >= len(list) || list[guess] != y {
			guess, _ = slices.BinarySearchFunc(list, y, func(y, z label) int { return y.compare(z, i) })
		}
		places = append(places, int32(guess))
		guess++
	}
	return places
}
