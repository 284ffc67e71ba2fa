package sampling

import (
	"fmt"
	"math"

	"minsep/internal/words"
)

// Audited describes the examples from which audited batches were formed.
type Audited struct {
	Examples      int64         // rows are in [0, Examples)
	Copies        []uint32      // of each row; nil for one copy each
	Owners        *Owners       // of each row; needed for multi-owner, for fixed batches formed with owners, and where owners follow the scheme
	Neighborhoods Neighborhoods // of the copies; needed for multi-owner
	Pools         *PoolMembers  // needed for rotation
}

// copies returns the number of entries that row may have in one batch.
func (x *Audited) copies(row int64) uint32 {
	if x.Copies == nil {
		return 1
	}
	return x.Copies[row]
}

// total returns the number of copies of all examples.
func (x *Audited) total() (n int64) {
	if x.Copies == nil {
		return x.Examples
	}
	for _, c := range x.Copies {
		n += int64(c)
	}
	return n
}

// Check is the result of checking one rule of a scheme on its batches. It holds nothing secret: the
// number of violations tells of a fault, not of who takes part.
type Check struct {
	Name   string `json:"name"`             // in two or three words
	Rule   string `json:"rule"`             // the rule, as a sentence
	Held   bool   `json:"held"`             // whether the rule held
	Broken int64  `json:"broken,omitempty"` // number of violations, at least 0
}

// Realized holds the outcomes of chance. It is secret. Where owners follow the scheme, entries and
// participations belong to owners.
type Realized struct {
	Participations           int64   `json:"participations"`                      // of all examples in all steps
	Mean                     float64 `json:"mean"`                                // expected number of participations, 0 where it is not known
	StandardDeviation        float64 `json:"standard_deviation"`                  // expected standard deviation of that number, at least 0
	SmallestBatch            int     `json:"smallest_batch"`                      // entries, at least 0
	LargestBatch             int     `json:"largest_batch"`                       // entries, at least 0
	MostParticipations       int64   `json:"most_participations"`                 // of one example, at least 0; 0 where owners follow the scheme
	MostParticipationsByUser int64   `json:"most_participations_owner,omitempty"` // of one owner, where owners were given; at least 0
}

// Audit checks batches against the rules of their scheme without trusting whoever formed them. Call
// Step, or StepOwners where owners follow the scheme, for every step in order, then Checks. It
// takes about 8 bytes of memory for each copy and each owner that takes part.
type Audit struct {
	spec     Spec
	of       Audited
	examples separation
	owners   *separation
	realized Realized
	steps    int

	spread *spread        // of schemes with known rates
	epoch  *epochCount    // of epoch-min-sep
	rotate *rotationAudit // of rotation
	groups *groupAudit    // where owners follow the scheme; the other fields then count owners as examples

	// Numbers of violations.
	outOfRange, disorder, tooMany, wrongSize int64
}

// separation checks the distance between participations of numbered things. The independent copies
// of a thing are not told apart in a batch. A thing with c copies that each keep a distance of b
// steps passes if and only if any c+1 participations in a row span b steps or more.
type separation struct {
	start  []int64       // where the ring of each thing's latest participations begins in last; nil for rings of one
	last   paged[int32]  // the rings: steps of participations
	count  paged[uint32] // participations of each thing
	broken int64
}

func newSeparation(copies []uint32) separation {
	s := separation{last: newPaged[int32](), count: newPaged[uint32]()}
	if copies != nil {
		s.start = make([]int64, len(copies))
		size := int64(0)
		for i, c := range copies {
			s.start[i] = size
			size += int64(c)
		}
	}
	return s
}

// visit records that thing takes part at step. sameStep allows several participations in one step.
func (s *separation) visit(thing int64, copies uint32, step, minSep int, sameStep bool) {
	at, count := thing, s.count.at(thing)
	if s.start != nil {
		at = s.start[thing] + int64(*count%copies)
	}
	last := s.last.at(at)
	if *count >= copies {
		gap := step - int(*last)
		if gap < minSep && !(sameStep && gap == 0) {
			s.broken++
		}
	}
	*last = int32(step)
	*count++
}

// most returns the largest number of participations of one thing.
func (s *separation) most() (most int64) {
	for _, page := range s.count.pages {
		for _, c := range page {
			most = max(most, int64(c))
		}
	}
	return most
}

// paged is an array that takes memory only for the pages in use. The number of examples may be a
// false claim and must not decide how much memory is taken.
type paged[T any] struct { // number of page
	pages  map[int64]*[pageSize]T
	number int64 // of page
	page   *[pageSize]T
}

const pageSize = 1 << 12

func newPaged[T any]() paged[T] { return paged[T]{pages: map[int64]*[pageSize]T{}} }

// at returns a pointer to element i ≥ 0; elements start as zero.
func (p *paged[T]) at(i int64) *T {
	if number := i / pageSize; p.page == nil || number != p.number {
		p.number, p.page = number, p.pages[number]
		if p.page == nil {
			p.page = new([pageSize]T)
			p.pages[number] = p.page
		}
	}
	return &p.page[i%pageSize]
}

// NewAudit returns an audit of batches that were formed by a valid spec.
func NewAudit(spec Spec, of Audited) *Audit {
	var groups *groupAudit
	if spec.Owners != nil {
		groups = newGroupAudit(spec, of)
		of = Audited{Examples: int64(len(groups.sizes))}
	}
	a := &Audit{spec: spec, of: of, groups: groups, examples: newSeparation(of.Copies)}
	a.realized.SmallestBatch = math.MaxInt
	a.spread = newSpread(spec, a.drawn())
	if s := spec.EpochMinSep; s != nil {
		a.epoch = newEpochCount(s.Steps, s.EpochSteps, of.total(), spec.Truncation != nil)
	}
	if spec.Rotation != nil {
		a.rotate = newRotationAudit(spec, of)
	}
	if of.Owners != nil {
		s := newSeparation(nil)
		a.owners = &s
	}
	return a
}

// Step audits the rows of the next step.
func (a *Audit) Step(rows []int64) {
	step := a.steps
	a.steps++
	entries := len(rows)
	for entries > 0 && rows[entries-1] == PadRow {
		entries--
	}
	a.realized.Participations += int64(entries)
	a.realized.SmallestBatch = min(a.realized.SmallestBatch, entries)
	a.realized.LargestBatch = max(a.realized.LargestBatch, entries)
	a.size(len(rows), entries)
	if a.spread != nil {
		a.spread.step(step, entries)
	}

	scheme := a.spec.Scheme()
	same := uint32(0) // entries of this row so far, this one included
	for i, row := range rows[:entries] {
		if row < 0 || row >= a.of.Examples {
			a.outOfRange++
			continue
		}
		switch {
		case i > 0 && rows[i-1] > row:
			a.disorder++
		case i > 0 && rows[i-1] == row:
			same++
		default:
			same = 1
		}
		if copies := a.of.copies(row); same <= copies {
			a.examples.visit(row, copies, step, scheme.Separation(), false)
			if a.epoch != nil {
				a.epoch.visit(row, copies)
			}
			if a.rotate != nil {
				a.rotate.visit(row, step)
			}
		} else {
			a.tooMany++
		}
		if a.owners != nil {
			for _, u := range a.of.Owners.of(int32(row)) {
				a.owners.visit(int64(u), 1, step, scheme.Separation(), a.spec.MultiOwner != nil)
			}
		}
	}
	if a.epoch != nil {
		a.epoch.passed(a.steps)
	}
	if a.rotate != nil {
		a.rotate.periods.passed(a.steps)
	}
}

// size checks the size of a batch; entries are its rows without padding.
func (a *Audit) size(size, entries int) {
	ok := size == entries // padding only where the scheme pads
	if t := a.spec.Truncation; t != nil {
		ok = entries <= t.MaxBatchSize && (ok && !t.Pad || t.Pad && size == t.MaxBatchSize)
	}
	if f := a.spec.Fixed; f != nil {
		ok = ok && size == f.BatchSize
	}
	if !ok {
		a.wrongSize++
	}
}

// falseAlarm is the probability with which sound batches fail each check of a random quantity.
const falseAlarm = 1e-9

// Checks returns the results once every step was audited.
func (a *Audit) Checks() []Check {
	scheme := a.spec.Scheme()
	b := scheme.Separation()
	checks := []Check{
		count(
			"steps",
			fmt.Sprintf("there are %d", scheme.NumSteps()),
			int64(max(a.steps-scheme.NumSteps(), scheme.NumSteps()-a.steps)),
		),
	}
	if a.groups == nil {
		checks = append(
			checks,
			count("rows", fmt.Sprintf("every row is in [0, %d)", a.of.Examples), a.outOfRange),
			count("order", "rows ascend in every batch", a.disorder),
			count("copies", "no batch has more entries of an example than it has copies", a.tooMany),
			count("batch sizes", a.sizeRule(), a.wrongSize),
			count(
				"separation of examples",
				fmt.Sprintf("two participations of a copy are at least %s apart", words.Count(b, "step")),
				a.examples.broken,
			),
		)
	} else {
		checks = append(checks, a.groups.checks()...)
		checks = append(
			checks,
			count("owners of a batch", "no batch has an owner twice", a.tooMany),
			count("batch sizes", a.sizeRule(), a.wrongSize+a.groups.wrongSize),
			count(
				"separation of owners",
				fmt.Sprintf("two participations of an owner are at least %s apart", words.Count(b, "step")),
				a.examples.broken,
			),
		)
	}
	if a.spread != nil {
		checks = append(checks, a.spread.check(a.plural()))
	}
	if a.epoch != nil {
		checks = append(checks, count("epochs", a.epoch.rule(a.participant(), "epoch"), a.epoch.broken))
	}
	if a.rotate != nil {
		checks = append(checks, a.rotate.checks()...)
	}
	if a.groups != nil {
		a.realized.MostParticipationsByUser = a.examples.most()
	} else {
		a.realized.MostParticipations = a.examples.most()
	}
	if a.owners != nil {
		a.realized.MostParticipationsByUser = a.owners.most()
		checks = append(
			checks,
			count(
				"separation of owners",
				fmt.Sprintf("two participations of an owner are at least %s apart", words.Count(b, "step")),
				a.owners.broken,
			),
		)
	}
	if f := a.spec.Fixed; f != nil {
		most := max(a.realized.MostParticipations, a.realized.MostParticipationsByUser)
		checks = append(
			checks,
			count(
				"participations",
				fmt.Sprintf("nobody takes part more than %d times", f.bound()),
				max(0, most-int64(f.bound())),
			),
		)
	} else if s, independent := scheme.(Independent); independent {
		checks = append(checks, a.totalCheck(s))
	}
	return checks
}

func count(name, rule string, broken int64) Check { return Check{name, rule, broken == 0, broken} }

// participant names the unit that follows the scheme, as part of a sentence.
func (a *Audit) participant() string {
	if a.groups != nil {
		return "owner"
	}
	return "copy of an example"
}

// drawn returns the number of copies that may take part in one step. In a rotation these are the
// examples of one pool.
func (a *Audit) drawn() int64 {
	if a.spec.Rotation != nil {
		return a.of.Pools.Size
	}
	return a.of.total()
}

// plural names the units that follow the scheme.
func (a *Audit) plural() string {
	if a.groups != nil {
		return "owners"
	}
	return "examples"
}

func (a *Audit) sizeRule() string {
	entries := "entries"
	if a.groups != nil {
		entries = fmt.Sprintf("owners of %d entries each", a.spec.Owners.ExamplesPerOwner)
	}
	switch t, f := a.spec.Truncation, a.spec.Fixed; {
	case f != nil:
		return fmt.Sprintf("every batch has %d %s", f.BatchSize, a.plural())
	case t != nil && t.Pad:
		return fmt.Sprintf("every batch has %d %s, padding last", t.MaxBatchSize, entries)
	case t != nil:
		return fmt.Sprintf("no batch has more than %d %s", t.MaxBatchSize, a.plural())
	}
	return "no batch has padding"
}

// totalCheck compares the number of participations with its distribution. Batches of different
// steps depend on each other, but copies of examples do not, and each takes part at most m =
// ceil(n/b) times. So Bernstein's inequality bounds the deviation t of the sum by Pr ≤ 2
// exp(-t²/(2(v + m t/3))), for any number of copies. Truncation only removes participations, so with it
// only the upper side is checked.
func (a *Audit) totalCheck(s Independent) Check {
	most := float64((s.NumSteps() + s.Separation() - 1) / s.Separation())
	if a.rotate != nil { // only the last period, if it is cut, is random
		most = 1
	}
	table, err := TableOf(s)
	if err != nil {
		return count("participations", err.Error(), 1)
	}
	mean, variance := table.TotalMoments(a.drawn())
	if c := a.spec.CyclicPoisson; c != nil && !c.SecretPartition {
		mean, variance = c.publicMoments(a.drawn())
	}
	tolerance := deviation(variance, most, falseAlarm)
	a.realized.Mean, a.realized.StandardDeviation = mean, math.Sqrt(variance)
	got := float64(a.realized.Participations)
	held := math.Abs(got-mean) <= tolerance
	rule := fmt.Sprintf(
		"the number of participations is within %.6g of its mean %.6g (false alarm %g)",
		tolerance,
		mean,
		falseAlarm,
	)
	if a.spec.Truncation != nil {
		held = got <= mean+tolerance
		rule = fmt.Sprintf(
			"the number of participations is at most %.6g, the mean %.6g before truncation and its tolerance (false alarm %g)",
			mean+tolerance,
			mean,
			falseAlarm,
		)
	}
	p := Check{Name: "participations", Rule: rule, Held: held}
	if !held {
		p.Broken = 1
	}
	return p
}

// Realized returns the outcomes of chance, which are secret. Call Checks first.
func (a *Audit) Realized() Realized { return a.realized }
