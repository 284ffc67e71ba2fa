package likelihood

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

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

// MaxTurns bounds the turns of one example, and MaxTurnsTogether those of several.
const (
	MaxTurns         = 1 << 20
	MaxTurnsTogether = 1 << 22
)

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
//
// The ratio of an owner of several examples, each in a process of a table of its own, is the same sum
// (F4.2): a turn is the points of all examples, at the least of which that example takes part or does
// not, and the past has the columns of all of them.
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
// with later ones, of four bytes each, so that places can be compared.
type place struct {
	at   sampling.Point
	past string
}

// reached has states, the places of all examples in order, as they are found. A state is at the step of
// its first place.
type reached struct {
	states [][]place
	number map[string]int
}

// listing follows a table through a run, with the columns that overlap.
type listing struct {
	table        *sampling.Table
	bands, count int
	// groups has the states of each step by the number of places that are at it, from all of them down:
	// a turn leads to a later group.
	groups  []reached
	turns   int
	ahead   []ahead // by turn
	first   []int   // number of the first turn of each group
	starts  [][2]int
	probs   []float64 // of the starts
	startOf map[[2]int]int
	key     []byte
}

// ahead is where a turn leads to: the group, or the number of groups after the run, and the state
// among those of the group.
type ahead struct{ out, in [2]int }

// listings holds the latest ones, which take some time to make.
var listings struct {
	sync.Mutex
	of map[listingOf]*listing
}

type listingOf struct {
	table        *sampling.Table
	bands, count int
}

// mostListings bounds the listings that are held.
const mostListings = 2

// listOf returns the listing of a table, which may be shared.
func listOf(t *sampling.Table, bands, count int) (*listing, error) {
	listings.Lock()
	defer listings.Unlock()
	key := listingOf{t, bands, count}
	if l := listings.of[key]; l != nil {
		return l, nil
	}
	l, err := list(t, bands, count)
	if err != nil {
		return nil, err
	}
	if len(listings.of) >= mostListings || listings.of == nil {
		listings.of = map[listingOf]*listing{}
	}
	listings.of[key] = l
	return l, nil
}

// list finds all states. It fails if there are too many.
func list(t *sampling.Table, bands, count int) (*listing, error) {
	l := &listing{
		table:   t,
		bands:   bands,
		count:   count,
		groups:  make([]reached, t.Steps*count),
		startOf: map[[2]int]int{},
	}
	l.begin(nil, 1)
	most := MaxTurns
	if count > 1 {
		most = MaxTurnsTogether
	}
	for g := range l.groups {
		l.first = append(l.first, l.turns)
		if l.turns += len(l.groups[g].states); l.turns > most {
			return nil, fmt.Errorf(
				"the participations of one example overlap in too many ways: a strategy of %d bands needs more than %d of them",
				bands,
				most,
			)
		}
		l.groups[g].number = nil
		for _, places := range l.groups[g].states {
			choice, _ := t.Choice(places[0].at)
			_, in, out := t.Next(places[0].at)
			past := places[0].past
			took := string(binary.BigEndian.AppendUint32(nil, uint32(g/count))) + past
			next := ahead{in: l.to(replaced(places, place{in, took})), out: [2]int{len(l.groups), 0}}
			if choice.Complement() > 0 {
				next.out = l.to(replaced(places, place{out, past}))
			}
			l.ahead = append(l.ahead, next)
		}
	}
	return l, nil
}

// replaced is a copy of places with another first one.
func replaced(places []place, first place) []place {
	places = slices.Clone(places)
	places[0] = first
	return places
}

// begin adds the starts of all examples that begin with places, which have a probability.
func (l *listing) begin(places []place, prob float64) {
	if len(places) < l.count {
		for _, s := range l.table.Starts {
			at := sampling.Point{Step: s.Step, State: s.State}
			l.begin(append(slices.Clone(places), place{at, ""}), prob*s.Prob())
		}
		return
	}
	at := l.to(places)
	k, known := l.startOf[at]
	if !known {
		k = len(l.starts)
		l.startOf[at], l.starts, l.probs = k, append(l.starts, at), append(l.probs, 0)
	}
	l.probs[k] += prob
}

// to adds a state, before which some columns may have ended. It changes the places.
func (l *listing) to(places []place) [2]int {
	slices.SortFunc(places, func(x, y place) int {
		return cmp.Or(
			cmp.Compare(x.at.Step, y.at.Step),
			cmp.Compare(x.at.State, y.at.State),
			cmp.Compare(x.past, y.past),
		)
	})
	at := places[0].at
	if at.Step >= l.table.Steps {
		return [2]int{len(l.groups), 0}
	}
	l.key = l.key[:0]
	for k := range places {
		x := &places[k]
		for last := len(x.past) - 4; last >= 0 && stepOf(x.past[last:]) <= at.Step-l.bands; last -= 4 {
			x.past = x.past[:last]
		}
		l.key = binary.AppendVarint(binary.AppendVarint(l.key, int64(x.at.Step)), int64(x.at.State))
		l.key = append(binary.AppendVarint(l.key, int64(len(x.past))), x.past...)
	}
	group := (at.Step+1)*l.count - 1
	for _, x := range places[1:] {
		if x.at.Step == at.Step {
			group--
		}
	}
	r := &l.groups[group]
	k, known := r.number[string(l.key)]
	if !known {
		if r.number == nil {
			r.number = map[string]int{}
		}
		k = len(r.states)
		r.states, r.number[string(l.key)] = append(r.states, places), k
	}
	return [2]int{group, k}
}

func stepOf(past string) int { return int(binary.BigEndian.Uint32([]byte(past[:4]))) }

// NewPoints takes 1/σ². It returns an error if there are too many turns.
func NewPoints(t *sampling.Table, c *Columns, factor float64) (*Points, error) {
	return NewExamples(t, c, factor, 1)
}

// NewExamples is for an owner of so many examples.
func NewExamples(t *sampling.Table, c *Columns, factor float64, count int) (*Points, error) {
	l, err := listOf(t, c.Bands, count)
	if err != nil {
		return nil, err
	}
	p := &Points{Steps: t.Steps, Turns: make([]Turn, 0, l.turns), Never: math.Pow(t.Never(), float64(count))}
	number := func(at [2]int) int {
		if at[0] == len(l.groups) {
			return l.turns
		}
		return l.first[at[0]] + at[1]
	}
	norms := c.SquaredNorms(factor)
	gram := NewGram(c, factor)
	for g := range l.groups {
		i := g / count
		for _, places := range l.groups[g].states {
			join := norms[i] / 2
			for _, x := range places {
				for past := x.past; past != ""; past = past[4:] {
					join += gram.Between(i, i-stepOf(past))
				}
			}
			next := l.ahead[len(p.Turns)]
			choice, _ := t.Choice(places[0].at)
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
	for k, at := range l.starts {
		p.Starts, p.Probs = append(p.Starts, number(at)), append(p.Probs, l.probs[k])
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
