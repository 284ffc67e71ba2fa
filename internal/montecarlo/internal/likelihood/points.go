package likelihood

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"minsep/sampling"
)

// Ratio is one recursion. Give it Reset, then Step for i = Steps-1, …, 0 in this order, then take
// LogRatio. It is not safe for concurrent use.
type Ratio interface {
	Reset()
	// Step takes u = ⟨c_i, y⟩/σ².
	Step(i int, u float64)
	LogRatio() float64
	// Fork returns the same ratio with a state of its own.
	Fork() Ratio
}

// LogRatio evaluates a ratio at y of Steps entries.
func LogRatio(ratio Ratio, c *Columns, noiseMultiplier float64, y []float64) float64 {
	ratio.Reset()
	for i := c.Steps - 1; i >= 0; i-- {
		ratio.Step(i, c.Dot(i, y)/(noiseMultiplier*noiseMultiplier))
	}
	return ratio.LogRatio()
}

// MaxTurns bounds the turns of a [Points].
const MaxTurns = 1 << 20

// Turn is a point of the run, with the participations whose columns overlap with its own: the
// logarithms of the weights of both ways on, but for the output, and the turns that they lead to.
type Turn struct {
	Step       int
	Stay, Join float64 // ln (1-p), and ln p - ‖c_i‖²/2σ² - Σ ⟨c_j,c_i⟩/σ²
	Out, In    int
}

// Points is the likelihood ratio of one example of any table,
//
//	f(y) = E_x exp((⟨Cx,y⟩ - ‖Cx‖²/2)/σ²),
//
// by a backward recursion over the points s of the table,
//
//	F_s = (1-p_s) F_out(s) + p_s exp((⟨c_i,y⟩ - ‖c_i‖²/2 - Σ_{j ∈ past(s)} ⟨c_j,c_i⟩)/σ²) F_in(s),
//
// F = 1 after the run. It is exact for any C: the past of a point has the columns of the example
// that overlap with c_i. If no two columns of one example overlap, there is no past, and one
// turn for each point.
type Points struct {
	Steps  int
	Turns  []Turn    // by step
	Starts []int     // turns; len(Turns) is the end of the run
	Probs  []float64 // of the starts
	Never  float64   // probability that an example takes part at no step

	logF []float64 // of each turn, and of the end
	done int       // turns from here on are done
}

// place is a point with the steps, latest first, of the participations whose columns may overlap
// with its own, of four bytes each, so that places can be compared.
type place struct {
	at   sampling.Point
	past string
}

// reached has the places of a step in the order in which they are found.
type reached struct {
	places []place
	number map[place]int
}

func (r *reached) add(x place) int {
	k, known := r.number[x]
	if !known {
		if r.number == nil {
			r.number = map[place]int{}
		}
		k = len(r.places)
		r.places, r.number[x] = append(r.places, x), k
	}
	return k
}

// listing follows a table through a run, with the columns that overlap.
type listing struct {
	table *sampling.Table
	bands int
	alone bool // no two columns of an example overlap: places are those of the table
	steps []reached
	turns int
	ahead []ahead // by turn
	first []int   // number of the first turn of each step
}

// ahead is where a turn leads to: the step, or the number of steps after the run, and the place
// among those of the step.
type ahead struct{ out, in [2]int }

// list finds all places. It fails if there are more than MaxTurns.
func list(t *sampling.Table, bands int) (*listing, [][2]int, error) {
	l := &listing{table: t, bands: bands, alone: bands <= t.Separation(), steps: make([]reached, t.Steps)}
	for i := 0; l.alone && i < t.Steps; i++ {
		for _, x := range t.Row(i) {
			l.steps[i].places = append(l.steps[i].places, place{sampling.Point{Step: i, State: x.State}, ""})
		}
	}
	var starts [][2]int
	for _, s := range t.Starts {
		starts = append(starts, l.to(place{sampling.Point{Step: s.Step, State: s.State}, ""}))
	}
	for i := range t.Steps {
		l.first = append(l.first, l.turns)
		l.turns += len(l.steps[i].places)
		if l.turns > MaxTurns {
			return nil, nil, fmt.Errorf(
				"the participations of one example overlap in too many ways: a strategy of %d bands needs more than %d of them",
				bands,
				MaxTurns,
			)
		}
		l.steps[i].number = nil
		for _, x := range l.steps[i].places {
			choice, _ := t.Choice(x.at)
			_, in, out := t.Next(x.at)
			next := ahead{out: [2]int{t.Steps, 0}}
			if choice.Complement() > 0 {
				next.out = l.to(place{out, x.past})
			}
			next.in = l.to(place{in, string(binary.BigEndian.AppendUint32(nil, uint32(i))) + x.past})
			l.ahead = append(l.ahead, next)
		}
	}
	return l, starts, nil
}

// to adds a place whose columns may have ended before it.
func (l *listing) to(x place) [2]int {
	if x.at.Step >= l.table.Steps {
		return [2]int{l.table.Steps, 0}
	}
	if l.alone {
		k, _ := slices.BinarySearchFunc(
			l.table.Row(x.at.Step),
			x.at.State,
			func(c sampling.Choice, state int) int { return cmp.Compare(c.State, state) },
		)
		return [2]int{x.at.Step, k}
	}
	for last := len(x.past) - 4; last >= 0 && stepOf(x.past[last:]) <= x.at.Step-l.bands; last -= 4 {
		x.past = x.past[:last]
	}
	return [2]int{x.at.Step, l.steps[x.at.Step].add(x)}
}

func stepOf(past string) int { return int(binary.BigEndian.Uint32([]byte(past[:4]))) }

// NewPoints takes 1/σ². It returns an error if there are too many turns.
func NewPoints(t *sampling.Table, c *Columns, factor float64) (*Points, error) {
	l, starts, err := list(t, c.Bands)
	if err != nil {
		return nil, err
	}
	p := &Points{Steps: t.Steps, Turns: make([]Turn, 0, l.turns), Never: t.Never()}
	number := func(at [2]int) int {
		if at[0] == t.Steps {
			return l.turns
		}
		return l.first[at[0]] + at[1]
	}
	norms := c.SquaredNorms(factor)
	var gram *Gram
	if !l.alone {
		gram = NewGram(c, factor)
	}
	for i := range t.Steps {
		for _, x := range l.steps[i].places {
			join := norms[i] / 2
			for past := x.past; past != ""; past = past[4:] {
				join += gram.Between(i, i-stepOf(past))
			}
			next := l.ahead[len(p.Turns)]
			choice, _ := t.Choice(x.at)
			stay := math.Log1p(-choice.Prob())
			if choice.Prob() > 0.5 { // the complement has all its digits
				stay = math.Log(choice.Complement())
			}
			p.Turns = append(
				p.Turns,
				Turn{i, stay, math.Log(choice.Prob()) - join, number(next.out), number(next.in)},
			)
		}
	}
	for k, s := range t.Starts {
		p.Starts, p.Probs = append(p.Starts, number(starts[k])), append(p.Probs, s.Prob())
	}
	return p, nil
}

// Fork shares the turns.
func (p *Points) Fork() Ratio {
	fork := *p
	fork.logF = nil
	return &fork
}

// Reset implements [Ratio].
func (p *Points) Reset() {
	if p.logF == nil {
		p.logF = make([]float64, len(p.Turns)+1)
	}
	p.done = len(p.Turns)
}

// Step implements [Ratio].
func (p *Points) Step(i int, u float64) {
	for ; p.done > 0 && p.Turns[p.done-1].Step == i; p.done-- {
		x := &p.Turns[p.done-1]
		p.logF[p.done-1] = LogSum(x.Stay+p.logF[x.Out], x.Join+u+p.logF[x.In])
	}
}

// LogRatio implements [Ratio].
func (p *Points) LogRatio() float64 {
	sum := math.Inf(-1)
	for k, at := range p.Starts {
		sum = LogSum(sum, math.Log(p.Probs[k])+p.logF[at])
	}
	return sum
}
