package sampling

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"minsep/internal/param"
)

// Sizes of a table at most.
const (
	MaxTableChoices = 1 << 20 // choices of all rows
	MaxTablePoints  = 1 << 24 // points that an example can reach
)

// certain is the threshold of the probability 1. Thresholds are in units of 2^-63.
const certain = 1 << 63

// Table is a [Law] as data, for a run of a number of steps. It says all of a scheme: batches are
// drawn, and privacy is accounted for, by its integers alone, so that every processor has the same
// distribution. A probability is met to 2^-64. Points at which nobody takes part are left out, and
// the points before them lead beyond them.
//
// A Table of a certificate or manifest was written by somebody else: Validate it first.
type Table struct {
	Steps  int          `json:"steps"`  // of the run, 1 to MaxSteps
	Starts []TableStart `json:"starts"` // by step, then by state
	// Rows are the different steps, and Classes the rows of the steps in order: the first steps have
	// the row of the first class, and so on.
	Rows    [][]Choice `json:"rows"`
	Classes []Class    `json:"classes"`

	rowOf []int32 // by step: its row
	facts facts
}

// facts are what follows from the table about one example.
type facts struct {
	participationCount
	rates      []float64 // probability of a participation at each step
	separation int       // least number of steps from a participation to the next
	hash       string    // of the table from which they follow
}

// TableStart is a first point with its probability in units of 2^-63.
type TableStart struct {
	Step   int    `json:"step"` // the number of steps of the run, if the example never takes part
	State  int    `json:"state"`
	Weight uint64 `json:"weight"`
}

// Class is a number of steps in a row that have the same choices.
type Class struct {
	Row   int `json:"row"`   // index in Rows
	Count int `json:"count"` // steps, at least 1
}

// Choice is a point of a step: what an example in a state does there.
type Choice struct {
	State     int    `json:"state"`
	Threshold uint64 `json:"threshold"` // Pr[the example takes part] in units of 2^-63, 1 to 2^63
	In        Jump   `json:"in"`        // if it takes part
	Out       Jump   `json:"out"`       // if it does not; unused if it must take part
}

// Jump is a next point, relative to the step before.
type Jump struct {
	Wait  int `json:"wait"` // steps from this step to the point's, at least 1; 0 for never again
	State int `json:"state"`
}

// Prob is the probability that an example takes part, in (0, 1].
func (c Choice) Prob() float64 { return float64(c.Threshold) / certain }

// Complement is the probability that an example does not take part, in [0, 1).
func (c Choice) Complement() float64 { return float64(certain-c.Threshold) / certain }

// to is the point of a jump from a step.
func (j Jump) to(step int) Point {
	if j.Wait == 0 {
		return Point{Step: Never}
	}
	return Point{step + j.Wait, j.State}
}

// Tabulate asks the law about every point that an example can reach in a run. It returns an error
// unless probabilities are in [0, 1], those of the starts have the sum 1, and every next point is
// later, or if the table is too large.
func (l Law) Tabulate(steps int) (*Table, error) {
	c := param.Checker{}
	c.Requiref(steps >= 1 && steps <= MaxSteps, "steps", steps, "must be from 1 to %d", MaxSteps)
	c.Require(l.Next != nil && len(l.Start) > 0, "law", len(l.Start), "must have starts and a function Next")
	sum := 0.0
	for _, s := range l.Start {
		c.Require(s.Prob >= 0 && s.Prob <= 1, "probability of a start", s.Prob, "must be from 0 to 1")
		c.Require(s.Step >= 0, "step of a start", s.Step, "must be at least 0")
		sum += s.Prob
	}
	c.Require(math.Abs(sum-1) <= 1e-9, "probabilities of the starts", sum, "must have the sum 1")
	if err := c.Err(); err != nil {
		return nil, err
	}
	b := tableBuilder{law: l, table: &Table{Steps: steps}, reached: make([][]int, steps), rows: map[string]int{}}
	return b.build(sum)
}

// tableBuilder follows a law from its starts to the end of the run.
type tableBuilder struct {
	law     Law
	table   *Table
	reached [][]int        // by step: states that an example may have there, in any order, some several times
	rows    map[string]int // index of a row by its bytes
	bytes   []byte
	choices int
	passing bool // some points have the probability 0
}

func (b *tableBuilder) build(sum float64) (*Table, error) {
	t := b.table
	total, before := 0.0, uint64(0)
	for _, s := range b.law.Start {
		total += s.Prob
		end := threshold(min(1, total/sum))
		if end > before {
			t.Starts = append(t.Starts, TableStart{min(s.Step, t.Steps), s.State, end - before})
			b.reach(s.Point)
		}
		before = end
	}
	points := 0
	for i, states := range b.reached {
		slices.Sort(states)
		states = slices.Compact(states)
		if points += len(states); points > MaxTablePoints {
			return nil, &param.Error{
				Param: "points of the law",
				Value: points,
				Rule:  fmt.Sprintf("must be at most %d: an example can be in too many states", MaxTablePoints),
			}
		}
		row, err := b.row(i, states)
		if err != nil {
			return nil, err
		}
		b.reached[i] = nil
		if err := b.append(row); err != nil {
			return nil, err
		}
	}
	t.index()
	if b.passing {
		if err := t.settle(); err != nil {
			return nil, err
		}
	}
	t.sortStarts()
	return t, t.Validate()
}

func (b *tableBuilder) reach(at Point) {
	if at.Step < b.table.Steps {
		b.reached[at.Step] = append(b.reached[at.Step], at.State)
	}
}

// row asks the law about the points of a step.
func (b *tableBuilder) row(i int, states []int) ([]Choice, error) {
	row := make([]Choice, 0, len(states))
	for _, state := range states {
		p, in, out := b.law.Next(Point{i, state})
		if !(p >= 0 && p <= 1) {
			return nil, &param.Error{
				Param: "probability",
				Value: p,
				Rule:  fmt.Sprintf("must be from 0 to 1, at step %d in state %d", i, state),
			}
		}
		x := Choice{State: state, Threshold: threshold(p)}
		for _, next := range []struct {
			used bool
			at   Point
			to   *Jump
		}{{x.Threshold > 0, in, &x.In}, {x.Threshold < certain, out, &x.Out}} {
			if !next.used || next.at.Step == Never {
				continue
			}
			if next.at.Step <= i {
				return nil, &param.Error{
					Param: "next point",
					Value: next.at,
					Rule:  fmt.Sprintf("must be of a later step than %d", i),
				}
			}
			*next.to = Jump{next.at.Step - i, next.at.State}
			b.reach(next.at)
		}
		b.passing = b.passing || x.Threshold == 0
		row = append(row, x)
	}
	return row, nil
}

// append adds the row of the next step, which may be one of another step.
func (b *tableBuilder) append(row []Choice) error {
	t := b.table
	b.bytes = appendRow(b.bytes[:0], row)
	k, known := b.rows[string(b.bytes)]
	if !known {
		k = len(t.Rows)
		b.rows[string(b.bytes)] = k
		t.Rows = append(t.Rows, row)
		if b.choices += len(row); b.choices > MaxTableChoices {
			return &param.Error{
				Param: "choices of the law",
				Value: b.choices,
				Rule:  fmt.Sprintf("must be at most %d: too many steps differ from each other", MaxTableChoices),
			}
		}
	}
	if last := len(t.Classes) - 1; last >= 0 && t.Classes[last].Row == k {
		t.Classes[last].Count++
	} else {
		t.Classes = append(t.Classes, Class{k, 1})
	}
	return nil
}

// settle leaves out points of probability 0, from the last step on.
func (t *Table) settle() error {
	old := *t
	b := tableBuilder{table: &Table{Steps: t.Steps, Starts: t.Starts}, rows: map[string]int{}}
	beyond := map[Point]Point{} // from points that are left out
	settled := func(at Point) Point {
		if next, left := beyond[at]; left {
			return next
		}
		return at
	}
	rows := make([][]Choice, t.Steps)
	for i := t.Steps - 1; i >= 0; i-- {
		for _, x := range old.Row(i) {
			out := settled(x.Out.to(i))
			if x.Threshold == 0 {
				beyond[Point{i, x.State}] = out
				continue
			}
			x.In, x.Out = jump(i, settled(x.In.to(i))), jump(i, out)
			rows[i] = append(rows[i], x)
		}
	}
	for _, row := range rows {
		if err := b.append(row); err != nil {
			return err
		}
	}
	t.Rows, t.Classes = b.table.Rows, b.table.Classes
	t.index()
	for k, s := range t.Starts {
		at := settled(Point{s.Step, s.State})
		t.Starts[k].Step, t.Starts[k].State = min(at.Step, t.Steps), at.State
	}
	return nil
}

func jump(step int, at Point) Jump {
	if at.Step == Never {
		return Jump{}
	}
	return Jump{at.Step - step, at.State}
}

// threshold is a probability in units of 2^-63, rounded.
func threshold(p float64) uint64 { return uint64(math.RoundToEven(p * certain)) }

// index finds the row of each step.
func (t *Table) index() {
	t.rowOf = make([]int32, 0, t.Steps)
	for _, c := range t.Classes {
		for range c.Count {
			t.rowOf = append(t.rowOf, int32(c.Row))
		}
	}
}

// sortStarts puts the starts in order, each point once.
func (t *Table) sortStarts() {
	for k, s := range t.Starts {
		if s.Step == t.Steps {
			t.Starts[k].State = 0
		}
	}
	slices.SortFunc(t.Starts, func(x, y TableStart) int { return comparePoints(x.point(), y.point()) })
	kept := t.Starts[:0]
	for _, s := range t.Starts {
		if last := len(kept) - 1; last >= 0 && kept[last].point() == s.point() {
			kept[last].Weight += s.Weight
		} else {
			kept = append(kept, s)
		}
	}
	t.Starts = kept
}

func (s TableStart) point() Point { return Point{s.Step, s.State} }

func comparePoints(x, y Point) int {
	return cmp.Or(cmp.Compare(x.Step, y.Step), cmp.Compare(x.State, y.State))
}

// Prob is the probability of a start, in (0, 1].
func (s TableStart) Prob() float64 { return float64(s.Weight) / certain }

// Row returns the choices of a step, by state. They are not to be changed.
func (t *Table) Row(step int) []Choice { return t.Rows[t.rowOf[step]] }

// RowOf returns the index in Rows of the choices of a step: steps with the same index are alike.
func (t *Table) RowOf(step int) int { return int(t.rowOf[step]) }

// Choice returns the choice of a point of the run, and whether an example can reach it.
func (t *Table) Choice(at Point) (x Choice, reached bool) {
	row, k := t.Row(at.Step), t.place(at)
	if k == len(row) || row[k].State != at.State {
		return x, false
	}
	return row[k], true
}

// Next returns the probability in (0, 1] that an example takes part at a point that it can reach,
// and its next points, as [Law] does.
func (t *Table) Next(at Point) (p float64, in, out Point) {
	x, _ := t.Choice(at)
	return x.Prob(), x.In.to(at.Step), x.Out.to(at.Step)
}

// Validate returns an error unless the table is one that [Law.Tabulate] makes: of at most the sizes
// of this package, with starts that have the sum 1, and with jumps that lead to choices. Of a table
// that was valid and has not changed, many goroutines may call it at once, as the other methods.
func (t *Table) Validate() error {
	if t.facts.hash != "" && t.facts.hash == t.Hash() {
		return nil
	}
	c := param.Checker{}
	c.Requiref(
		t.Steps >= 1 && t.Steps <= MaxSteps,
		"steps of the table",
		t.Steps,
		"must be from 1 to %d", MaxSteps,
	)
	steps, choices := 0, 0
	for _, class := range t.Classes {
		known := class.Row >= 0 && class.Row < len(t.Rows) && class.Count >= 1 && class.Count <= MaxSteps
		if c.Require(known, "class", class, "must be a row of the table and a number of steps"); !known || steps > MaxSteps {
			return c.Err()
		}
		steps += class.Count
	}
	c.Requiref(
		steps == t.Steps,
		"steps of the classes",
		steps,
		"must be those of the table, %d", t.Steps,
	)
	for k, row := range t.Rows {
		choices += len(row)
		ordered := slices.IsSortedFunc(row, func(x, y Choice) int { return cmp.Compare(x.State, y.State) })
		c.Require(ordered, "row", k, "must have its states in ascending order")
		for _, x := range row {
			c.Require(
				x.Threshold >= 1 && x.Threshold <= certain,
				"threshold",
				x.Threshold,
				"must be from 1 to 2^63",
			)
			c.Require(x.In.Wait >= 0 && x.Out.Wait >= 0, "wait", min(x.In.Wait, x.Out.Wait), "must be at least 0")
		}
	}
	c.Requiref(
		choices <= MaxTableChoices,
		"choices of the table",
		choices,
		"must be at most %d", MaxTableChoices,
	)
	if err := c.Err(); err != nil {
		return err
	}
	t.index()
	if err := t.checkPoints(); err != nil {
		return err
	}
	t.summarise()
	return nil
}

// checkPoints follows the table from its starts.
func (t *Table) checkPoints() error {
	c := param.Checker{}
	has := func(at Point) bool {
		if at.Step < 0 || at.Step >= t.Steps {
			return at.Step >= 0
		}
		_, reached := t.Choice(at)
		return reached
	}
	sum := uint64(0)
	for _, s := range t.Starts {
		c.Require(
			s.Step >= 0 && s.Weight > 0 && sum+s.Weight <= certain && has(s.point()),
			"start",
			s,
			"must be a point of the table with a weight above 0",
		)
		sum += s.Weight
		if c.Err() != nil {
			return c.Err()
		}
	}
	c.Require(sum == certain, "weights of the starts", sum, "must have the sum 2^63")
	points := 0
	for i := range t.Steps {
		for _, x := range t.Row(i) {
			if !has(x.In.to(i)) || x.Threshold < certain && !has(x.Out.to(i)) {
				c.Requiref(
					false,
					"choice",
					x,
					"must lead to choices of the table, from step %d too", i,
				)
				return c.Err()
			}
		}
		points += len(t.Row(i))
	}
	c.Requiref(
		points <= MaxTablePoints,
		"points of the table",
		points,
		"must be at most %d", MaxTablePoints,
	)
	return c.Err()
}

// Separation returns the least number of steps from one participation of an example to its next one
// that the table leaves room for; the number of steps if there is never a second one.
func (t *Table) Separation() int { return t.facts.separation }

// summarise sets the facts of a valid table.
func (t *Table) summarise() {
	t.facts = facts{participationCount: t.count(), rates: t.marginals(), separation: t.Steps, hash: t.Hash()}
	for i := range t.Steps {
		for _, x := range t.Row(i) {
			if in := x.In.to(i); in.Step < t.Steps {
				t.facts.separation = min(t.facts.separation, x.In.Wait)
			}
		}
	}
}

// Hash returns the SHA-256 of the table's integers, in hexadecimal digits.
func (t *Table) Hash() string {
	h := sha256.New()
	b := binary.AppendUvarint([]byte("minsep/sampling.Table\n"), uint64(t.Steps))
	for _, s := range t.Starts {
		b = binary.AppendUvarint(
			binary.AppendVarint(binary.AppendUvarint(b, uint64(s.Step)), int64(s.State)),
			s.Weight,
		)
	}
	b = binary.AppendUvarint(b, uint64(len(t.Rows)))
	for _, row := range t.Rows {
		h.Write(b)
		b = appendRow(b[:0], row)
	}
	for _, class := range t.Classes {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(class.Row)), uint64(class.Count))
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// appendRow appends the choices of a row to b, as bytes that no other row has.
func appendRow(b []byte, row []Choice) []byte {
	b = binary.AppendUvarint(b, uint64(len(row)))
	for _, x := range row {
		b = binary.AppendUvarint(binary.AppendVarint(b, int64(x.State)), x.Threshold)
		for _, j := range []Jump{x.In, x.Out} {
			b = binary.AppendVarint(binary.AppendUvarint(b, uint64(j.Wait)), int64(j.State))
		}
	}
	return b
}
