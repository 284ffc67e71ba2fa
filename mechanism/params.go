package mechanism

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/internal/strictjson"
	"minsep/internal/words"
)

// Params describe a strategy and the workload that it is made for, as users give them in plans and
// by flags. A zero value stands for a field that is not given.
type Params struct {
	Kind  string `json:"kind"`                                                                                                         // one of Kinds
	Steps int    `json:"steps" flag:"steps" help:"number of training steps"`                                                           // 1 to MaxSteps, or to the family's limit
	Bands int    `json:"bands,omitempty" flag:"bands" help:"number of bands of the strategy, or of its inverse for the inverse kinds"` // 1 to Steps/Stamps, for families with bands: of C, or of C⁻¹ for the inverse kinds

	// Training makes the workload; with nothing of it given, the workload is prefix sums.
	Training

	Objective         string `json:"objective,omitempty" flag:"objective" help:"the error to minimise: mean or max, over the steps (default mean)"`                            // mean (the default) or max
	MinSep            int    `json:"min_sep,omitempty" flag:"min-sep" help:"least number of steps from one participation to the next (default: each example takes part once)"` // at least 1, in steps; 0: one participation
	MaxParticipations int    `json:"max_participations,omitempty" flag:"max-participations" help:"most participations of an example (default: as many as --min-sep lets fit)"` // at least 1; 0: as many as fit
	Phases            bool   `json:"phases,omitempty" flag:"phases" help:"assume that examples take part every --min-sep steps exactly, as in epochs of a fixed order"`        // epochs of MinSep steps in a fixed order

	// Parameters of the families; a nil parameter is chosen for the least loss.

	Lambda           *float64  `json:"lambda,omitempty" flag:"lambda" help:"λ of lambda-cgd, from 0 to 1 (default: the best)"`                                                                                // λ-CGD: 0 to 1
	Gamma            *float64  `json:"gamma,omitempty" flag:"gamma" help:"γ of bfr and bifr, from 0 to 1 (default: the best)"`                                                                                // BFR, BIFR: 0 to 1
	Offset           *float64  `json:"offset,omitempty" flag:"offset" help:"c of one-parameter (default: the best)"`                                                                                          // one-parameter: at least -1/Bands
	IndependentNoise float64   `json:"independent_noise,omitempty" flag:"independent-noise" help:"for amplified-toeplitz: noise multiplier that independent noise needs under the same sampling (default 1)"` // amplified-toeplitz: σ that independent noise needs under the same sampling, 0.01 to 1e6; 0: 1
	Normalized       *bool     `json:"normalized,omitempty" flag:"normalized" help:"divide each column of the strategy by its norm (default: for lambda-cgd only)"`                                           // divide the columns by their norms; nil: the family's default
	Buffers          int       `json:"buffers,omitempty" flag:"buffers" help:"most buffers of blt (default 4)"`                                                                                               // of a BLT, at most; 0: 4
	Arity            int       `json:"arity,omitempty" flag:"arity" help:"arity of fenwick and tree: the number of children of a node (default 2)"`                                                           // of trees, at least 2; 0: 2
	Column           []float64 `json:"column,omitempty" flag:"column" help:"first column of toeplitz: numbers with commas between them"`                                                                      // toeplitz: first column of C, 1 to Steps/Stamps entries, the first above 0
	Stamps           int       `json:"stamps,omitempty" flag:"stamps" help:"make the strategy for one N-th of the steps, and repeat it N times"`                                                              // make the strategy for Steps/Stamps steps and repeat it; 0: 1
}

// parameters returns the addresses of the free parameters of families in p, by name.
func (p *Params) parameters() map[string]**float64 {
	return map[string]**float64{"lambda": &p.Lambda, "gamma": &p.Gamma, "offset": &p.Offset}
}

// SetParameter gives the free parameter of a name, that of a family's [Parameter], a value. It panics on
// another name.
func (p *Params) SetParameter(name string, value float64) { *p.parameters()[name] = &value }

// Validate returns every fault that shows before the strategy is made, joined, or nil.
func (p Params) Validate() error {
	c := param.Checker{}
	f, known := familyOf(p.Kind)
	c.Require(known, "kind", fmt.Sprintf("%q", p.Kind), "must be one of "+strings.Join(Kinds(func(Family) bool { return true }), ", "))
	c.Requiref(p.Steps >= 1 && p.Steps <= MaxSteps, "steps", p.Steps, "must be 1 to %d", MaxSteps)
	if known {
		p.validateFamily(f, &c)
	}
	if f.Size != BandsSize {
		c.AtLeast("bands", p.Bands, 0)
	}
	most := p.Steps / max(1, p.Stamps)
	c.Requiref(p.Buffers >= 0 && p.Buffers <= max(most, 1), "buffers", p.Buffers, "must be 1 to %d", max(most, 1))
	c.Require(p.Arity == 0 || p.Arity >= 2, "arity", p.Arity, "must be at least 2")
	c.AtLeast("stamps", p.Stamps, 0)
	if p.Stamps > 1 {
		c.Requiref(p.Steps%p.Stamps == 0, "stamps", p.Stamps, "must divide the steps, %d", p.Steps)
		c.Require(
			p.schedule() == ConstantSchedule,
			"schedule",
			p.schedule(),
			"must be constant to make a stamp for",
		)
	}
	c.Require(
		p.MinSep != 0 || p.MaxParticipations <= 1 && !p.Phases,
		"min-sep",
		p.MinSep,
		"must be given with max-participations or phases",
	)
	c.AtLeast("min-sep", p.MinSep, 0)
	c.AtLeast("max-participations", p.MaxParticipations, 0)
	p.Training.check(p.Steps, &c)
	return c.Err()
}

// validateFamily adds the faults of parameters that the family decides.
func (p Params) validateFamily(f Family, c *param.Checker) {
	if f.MaxSteps > 0 {
		c.Requiref(
			p.Steps <= f.MaxSteps,
			"steps",
			p.Steps,
			"must be at most %d for %s, which is held as a whole matrix", f.MaxSteps, p.Kind,
		)
	}
	if f.check != nil {
		f.check(p, c)
	}
	if most := p.Steps / max(1, p.Stamps); f.Size == BandsSize {
		c.Requiref(
			p.Bands >= 1 && p.Bands <= most,
			"bands",
			p.Bands,
			"must be 1 to %d for %s", max(1, most), p.Kind,
		)
	}
	for _, field := range p.familyFields() {
		if !field.value.IsZero() && !slices.Contains(field.kinds, p.Kind) {
			given := reflect.Indirect(field.value).Interface()
			c.Requiref(false, field.name, given, "is for %s only, not for %s", words.List(field.kinds), p.Kind)
		}
	}
	if f.Parameter == nil {
		return
	}
	if x := *p.parameters()[f.Parameter.Name]; x != nil {
		c.Require(
			*x >= f.lowest(p) && *x <= min(f.Parameter.High, math.MaxFloat64),
			f.Parameter.Name,
			*x,
			f.rule(p),
		)
	}
}

// familyField is a field of Params that only some kinds have.
type familyField struct {
	name  string // of its flag
	value reflect.Value
	kinds []string
}

// familyFields returns these fields of p.
func (p *Params) familyFields() (fields []familyField) {
	for field, value := range reflect.ValueOf(p).Elem().Fields() {
		name := field.Tag.Get("flag")
		if kinds := Kinds(func(f Family) bool { return f.takes(name) }); len(kinds) > 0 {
			fields = append(fields, familyField{name, value, kinds})
		}
	}
	return fields
}

// takes reports whether the family has the parameter of a flag.
func (f Family) takes(flag string) bool {
	return flag != "" && flag == f.Size || f.Parameter != nil && flag == f.Parameter.Name || slices.Contains(f.options, flag)
}

// Among returns p for one of several kinds that are compared, without the parameters that this kind
// does not have and another of the kinds has: they were given for that one.
func (p Params) Among(kinds []string, kind string) Params {
	p.Kind = kind
	for _, field := range p.familyFields() {
		of := func(k string) bool { return slices.Contains(field.kinds, k) }
		if !of(kind) && slices.ContainsFunc(kinds, of) {
			field.value.SetZero()
		}
	}
	return p
}

// rule returns the range of the family's parameter in words.
func (f Family) rule(p Params) string {
	if !math.IsInf(f.Parameter.High, 1) {
		return fmt.Sprintf("must be in [%v, %v]", f.lowest(p), f.Parameter.High)
	}
	return fmt.Sprintf("must be a finite number of at least %.4g", f.lowest(p))
}

// MadeFor returns the training with its defaults for p's steps in place. Two Params for which it
// returns the same have the same workload.
func (p Params) MadeFor() Training {
	t := p.Training
	t.Memory, t.Schedule = t.memory(p.Steps), t.schedule()
	if t.Schedule == WarmupCosineSchedule {
		t.WarmupSteps = t.warmup(p.Steps)
	}
	t.Optimizer = cmp.Or(t.Optimizer, SGD)
	return t
}

// Forgetful returns p for a model that forgets sooner than p says, with a memory of a quarter of the
// steps, or of half of p's own if that is less, and at least one step.
func (p Params) Forgetful() (sooner Params) {
	p.Memory = max(1, min(Memory(p.Steps)/4, p.memory(p.Steps)/2))
	return p
}

// ForToeplitz returns p with the nearest Toeplitz workload: constant learning rates in place of a
// schedule.
func (p Params) ForToeplitz() Params {
	p.Memory = p.memory(p.Steps) // of the training with its schedule
	p.Schedule, p.WarmupSteps = "", 0
	return p
}

// ScheduleFile returns the name of the file of the learning rates, or "" if the schedule has a name.
func (p Params) ScheduleFile() string {
	if p.hasNamedSchedule() {
		return ""
	}
	return p.Schedule
}

// ReadRates reads the learning rates of a schedule, which are a list of numbers.
func ReadRates(r io.Reader) (rates []float64, err error) {
	if err := strictjson.Read(r, &rates); err != nil {
		return nil, fmt.Errorf("learning rates: %w", err)
	}
	check := param.Checker{}
	check.AtLeast("learning rates", len(rates), 1)
	checkRates(&check, rates)
	return rates, check.Err()
}

// Problem returns the problem for which strategies of these parameters are made, and by which they
// are measured. rates are those of [Params.ScheduleFile], as many as p has steps, or nil if there
// is no such file.
func (p Params) Problem(rates []float64) (Problem, error) {
	problem := Problem{Objective: p.Objective}
	if p.MinSep != 0 {
		problem.Participation = Participation{
			MinSep:            p.MinSep,
			MaxParticipations: p.MaxParticipations,
			Phases:            p.Phases,
		}
	}
	if file := p.ScheduleFile(); file != "" && len(rates) != p.Steps {
		return problem, param.Fault("steps", p.Steps, "must be %d, as the schedule %s has", len(rates), file)
	}
	problem.Workload = p.Training.workload(p.Steps, rates)
	return problem, problem.Validate()
}

// StandIn returns a Toeplitz strategy with as many bands as the strategy of the valid p will have,
// for checks before it is made. It returns nil if the number of bands is not known yet.
func (p Params) StandIn() *Strategy {
	f, _ := familyOf(p.Kind)
	switch {
	case f.TakesColumn: // stamps have the bands and the signs of one of them
		return &Strategy{Kind: KindToeplitz, Steps: p.Steps, Toeplitz: p.Column}
	case f.bands == nil:
		return nil
	}
	stamp := p
	stamp.Steps /= max(1, p.Stamps)
	bands := f.bands(stamp)
	if bands == 0 {
		return nil
	}
	return &Strategy{Kind: KindToeplitz, Steps: p.Steps, Toeplitz: slices.Repeat([]float64{1}, bands)}
}

// Seconds estimates the time that Make takes on one processor.
func (p Params) Seconds() float64 {
	seconds := 0.01 + 0.3e-6*float64(p.Steps)
	if f, ok := familyOf(p.Kind); ok && f.seconds != nil {
		seconds += f.seconds(p)
	}
	return seconds
}

// Make makes the strategy. rates are as for [Params.Problem]. An optimisation may take minutes;
// after ctx ends, it returns ctx's error at its next iteration.
func (p Params) Make(ctx context.Context, rates []float64) (*Strategy, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Stamps > 1 {
		block := p
		block.Steps, block.Stamps = p.Steps/p.Stamps, 0
		block.Memory = p.memory(p.Steps) // of the whole training
		s, err := block.Make(ctx, rates)
		if err != nil {
			return nil, err
		}
		return Stamped(s, p.Stamps)
	}
	problem, err := p.Problem(rates)
	if err != nil {
		return nil, err
	}
	f, _ := familyOf(p.Kind)
	return f.makeFor(ctx, problem, p)
}
