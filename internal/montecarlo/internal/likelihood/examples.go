package likelihood

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"minsep/sampling"
)

// maxOwnerStates bounds the states of [Examples].
const maxOwnerStates = 1 << 22

// Examples is the likelihood ratio of an owner of several examples, each in a process of a table of
// its own (F4.2), exact for any C. A state is the places of all examples. The next turn is that of an
// example with the least step, and a participation costs the overlap with all columns of all
// examples. It is for small problems: the log ratio is NaN if the examples can be in too many states
// together.
type Examples struct {
	Steps, Count int
	Norms        []float64 // ‖c_i‖²/σ²

	table *sampling.Table
	bands int
	gram  *Gram
	u     []float64
	known map[string]float64 // ln of the ratio of what comes after a state
}

// NewExamples takes 1/σ².
func NewExamples(t *sampling.Table, c *Columns, factor float64, count int) *Examples {
	o := &Examples{
		Steps: c.Steps,
		Count: count,
		Norms: c.SquaredNorms(factor),
		table: t,
		bands: c.Bands,
		gram:  NewGram(c, factor),
	}
	return o.Fork().(*Examples)
}

// Fork shares the tables.
func (o *Examples) Fork() Ratio {
	fork := *o
	fork.u, fork.known = make([]float64, o.Steps), nil
	return &fork
}

// Reset implements [Ratio].
func (o *Examples) Reset() { o.known = map[string]float64{} }

// Step implements [Ratio].
func (o *Examples) Step(i int, u float64) { o.u[i] = u }

// LogRatio implements [Ratio].
func (o *Examples) LogRatio() float64 {
	total := math.Inf(-1)
	var begin func(places []place, log float64)
	begin = func(places []place, log float64) {
		if len(places) == o.Count {
			total = LogSum(total, log+o.after(places))
			return
		}
		for _, s := range o.table.Starts {
			begin(
				append(places[:len(places):len(places)], place{sampling.Point{Step: s.Step, State: s.State}, ""}),
				log+math.Log(s.Prob()),
			)
		}
	}
	begin(nil, 0)
	if len(o.known) > maxOwnerStates {
		return math.NaN()
	}
	return total
}

// Gram has the inner products of the columns.
func (o *Examples) Gram() *Gram { return o.gram }

// Renewal is a law that is the same at every step, in one state: an example that is free takes part
// with probability Prob, and is free again MinSep steps later.
type Renewal struct {
	Prob   float64
	MinSep int
	Waits  []float64 // probabilities of the waits before the first step at which an example is free
}

// RenewalOf is the law of a table; ok is false for other laws, and if columns of so many bands of one
// example overlap.
func RenewalOf(t *sampling.Table, bands int) (r Renewal, ok bool) {
	if len(t.Rows) != 1 || len(t.Rows[0]) != 1 {
		return r, false
	}
	x := t.Rows[0][0]
	r = Renewal{Prob: x.Prob(), MinSep: x.In.Wait}
	if r.MinSep == 0 || r.MinSep < bands || r.Prob < 1 && x.Out.Wait != 1 {
		return r, false
	}
	for _, s := range t.Starts {
		if s.Step >= r.MinSep {
			return r, false
		}
		for len(r.Waits) < s.Step {
			r.Waits = append(r.Waits, 0)
		}
		r.Waits = append(r.Waits, s.Prob())
	}
	return r, true
}

// Renewal is the law of the examples, if it is one.
func (o *Examples) Renewal() (r Renewal, ok bool) { return RenewalOf(o.table, o.bands) }

// after is ln of the ratio of what comes after a state.
func (o *Examples) after(places []place) float64 {
	places = slices.Clone(places)
	slices.SortFunc(places, func(x, y place) int {
		return cmp.Or(
			cmp.Compare(x.at.Step, y.at.Step),
			cmp.Compare(x.at.State, y.at.State),
			cmp.Compare(x.past, y.past),
		)
	})
	first := places[0].at
	if first.Step >= o.table.Steps || len(o.known) > maxOwnerStates {
		return 0
	}
	var key []byte
	for k := range places {
		x := &places[k]
		for last := len(x.past) - 4; last >= 0 && stepOf(x.past[last:]) <= first.Step-o.bands; last -= 4 {
			x.past = x.past[:last]
		}
		key = binary.AppendVarint(binary.AppendVarint(key, int64(x.at.Step)), int64(x.at.State))
		key = append(binary.AppendVarint(key, int64(len(x.past))), x.past...)
	}
	if log, known := o.known[string(key)]; known {
		return log
	}
	i, join := first.Step, -o.Norms[first.Step]/2+o.u[first.Step]
	for _, x := range places {
		for past := x.past; past != ""; past = past[4:] {
			if j := stepOf(past); j == i {
				join -= o.Norms[i]
			} else {
				join -= o.gram.Between(i, i-j)
			}
		}
	}
	choice, _ := o.table.Choice(first)
	_, in, out := o.table.Next(first)
	past := places[0].past
	places[0] = place{in, string(binary.BigEndian.AppendUint32(nil, uint32(i))) + past}
	log := math.Log(choice.Prob()) + join + o.after(places)
	if choice.Complement() > 0 {
		places[0] = place{out, past}
		log = LogSum(log, math.Log(choice.Complement())+o.after(places))
	}
	o.known[string(key)] = log
	return log
}
