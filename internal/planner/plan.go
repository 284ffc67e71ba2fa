package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"minsep/internal/param"
	"slices"

	"minsep/internal/accounting"
	"minsep/internal/parallel"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

// Format is the version of the JSON form of a [Result].
const Format = 1

// Result is a plan: the candidates by rising error, and sentences on the first.
type Result struct {
	Format  int     `json:"format"`
	Request Request `json:"request"`
	Rows    []*Row  `json:"rows"` // the ranked by Rank, then those that are refused

	// Training says for whom the ranking is: how the model is trained, and whether that was
	// assumed. ShorterMemory is the memory, in steps, of the rows' errors for a model that forgets
	// sooner: a quarter of the steps, or half of the request's own memory where that is less.
	Training      string           `json:"training"`
	ShorterMemory mechanism.Memory `json:"shorter_memory"`

	Stopped bool `json:"stopped,omitempty"` // before all candidates were looked at: the order may change

	// TooSmall says that the maximum batch size leaves out better mechanisms, and which one does not.
	TooSmall string `json:"max_batch_size_too_small,omitempty"`

	// MoreData names a row that uses more than twice as much of the data as the first, and its noise.
	MoreData string `json:"more_data,omitempty"`

	// Weak says why the claim would protect next to nobody, whatever the further ε of a plan that
	// is written certify.
	Weak []string `json:"weak,omitempty"`

	planning *planning // that made it

	Why  []string `json:"why"`  // the first is first, or nothing can be used: a sentence each
	Note []string `json:"note"` // on the figures, and on candidates that were left out
}

// ErrNone says that no candidate can be used. Result.Rows have the reasons.
var ErrNone = errors.New("no mechanism can be used")

// Plan finds the figures of every candidate and ranks them. Where ctx ends, ctx's error comes with
// the candidates that were looked at.
func (r Request) Plan(ctx context.Context) (*Result, error) {
	if r.Unit == "" {
		r.Unit = accounting.UnitOwner
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	shared := &planning{Request: &r}
	settings := shared.settings()
	// No batch size is below the number of units: of all faults this one needs the data to be told.
	if len(settings) == 0 {
		most, unit := r.mostUnits()
		rule := fmt.Sprintf("must be below the number of %ss, %d", unit, most)
		if last := r.Populations[len(r.Populations)-1]; last.Given > last.Examples && unit == "example" {
			rule += fmt.Sprintf(
				", of %s, that --max-per-owner %d keeps",
				words.Grouped(last.Given),
				last.MaxPerOwner,
			)
		}
		return nil, &ParamError{Param: "batch size", Value: r.BatchSizes[0], Rule: rule}
	}
	rows, err := shared.rows(ctx, settings)
	if ctx.Err() != nil {
		return shared.stopped(rows), ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	out := shared.result(rows)
	if err := shared.rank(ctx, rows); ctx.Err() != nil {
		return shared.stopped(rows), ctx.Err()
	} else if err != nil {
		return nil, err
	}
	if err := shared.compare(out); err != nil {
		return nil, err
	}
	out.explain()
	if len(out.Rows) == 0 || out.Rows[0].Refused != "" {
		return out, ErrNone
	}
	out.Weak = r.weak()
	return out, nil
}

// settings are the populations and batch sizes that are tried, with examples sampled and, as the
// request asks, owners.
func (p *planning) settings() (list []*setting) {
	add := func(units int64, s setting) {
		for _, batch := range p.BatchSizes {
			if batch < float64(units) {
				one := s
				one.planning, one.batch = p, batch
				list = append(list, &one)
			}
		}
	}
	if p.Sample != sampling.SampleOwners {
		for _, population := range p.Populations {
			add(population.Examples, setting{population: population})
		}
		if p.Unit == accounting.UnitOwner && p.Pools != nil {
			examples := len(list)
			add(p.Pools.Size, setting{population: p.Pools.population()})
			for _, s := range list[examples:] {
				s.rotation = p.rotates(s.batch)
			}
		}
	}
	// Where owners are sampled, it does not matter for privacy how many examples they have.
	last := p.Populations[len(p.Populations)-1]
	also := p.Sample == "" && last.MaxPerOwner > 1 && p.Unit == accounting.UnitOwner
	if also || p.Sample == sampling.SampleOwners {
		add(last.Owners, setting{population: last, owners: true})
	}
	return list
}

// mostUnits is the largest number of units that can take part, and their name.
func (r *Request) mostUnits() (number int64, unit string) {
	last := r.Populations[len(r.Populations)-1]
	if r.Sample == sampling.SampleOwners {
		return last.Owners, "owner"
	}
	return last.Examples, "example"
}

// tooLarge says which batch sizes were not tried.
func (r *Request) tooLarge() []string {
	most, unit := r.mostUnits()
	for _, batch := range r.BatchSizes {
		if batch >= float64(most) {
			return []string{
				fmt.Sprintf(
					"Batch sizes from %.6g on were not tried: there are only %s.",
					batch,
					words.Count(most, unit),
				),
			}
		}
	}
	return nil
}

// stopped is the plan of the candidates that were looked at before it was stopped.
func (p *planning) stopped(rows []*Row) *Result {
	order(rows)
	number(rows)
	known := slices.IndexFunc(rows, func(row *Row) bool { return row.Refused != "" })
	if known < 0 {
		known = len(rows)
	}
	out := p.result(rows)
	out.Stopped, out.Why = true, []string{}
	out.Note = []string{
		fmt.Sprintf(
			"The plan was stopped: %s above, and there may be better ones. Estimates are not refined.",
			words.Count(known, "candidate"),
		),
	}
	return out
}

// result is a plan of rows, without sentences on them.
func (p *planning) result(rows []*Row) *Result {
	return &Result{
		Format:        Format,
		Request:       *p.Request,
		Rows:          rows,
		Training:      p.training(),
		ShorterMemory: p.shorter().Memory,
		planning:      p,
	}
}

// Protected is how many units a claim is for, with the most examples of an owner: owners with an
// example that is kept, or examples; 0 where that is not known.
func (r *Request) Protected() int64 {
	if len(r.Populations) == 0 {
		return 0
	}
	last := r.Populations[len(r.Populations)-1]
	if r.Numbered || r.Unit == accounting.UnitExample {
		return last.Examples
	}
	return max(last.Owners, last.Protected)
}

// weak is Result.Weak: each further ε may come to a δ of nearly nothing.
func (r *Request) weak() []string {
	claim := accounting.Guarantee{{Epsilon: r.Epsilon, Delta: r.Delta}}
	why := claim.Weak(r.Protected())
	for _, epsilon := range further(r.Epsilon) {
		claim = append(claim, accounting.EpsilonDelta{Epsilon: epsilon, Delta: r.Delta})
	}
	if claim.Weak(0) == nil && claim[:1].Weak(0) != nil { // of the attacks, last
		why = why[:len(why)-1]
	}
	return why
}

// rows looks at all candidates of the settings, in an order that does not depend on time.
func (p *planning) rows(ctx context.Context, settings []*setting) (rows []*Row, err error) {
	if err := inParallel(ctx, settings, func(s *setting) error {
		return s.setBase()
	}); err != nil {
		return nil, err
	}
	jobs, last := jobsOf(settings)
	defer func() {
		for _, j := range jobs {
			rows = append(rows, j.part.rows...)
		}
	}()
	best := (*Row)(nil)
	for stage := range last + 1 {
		var now []*job
		for _, j := range jobs {
			if j.stage == stage {
				j.part.known = best
				for _, other := range jobs {
					if other.stage < stage && other.part.isLessOf(j.part.setting) {
						j.part.fewer = append(j.part.fewer, other.part.rows...)
					}
				}
				now = append(now, j)
			}
		}
		if err := inParallel(ctx, now, func(j *job) error {
			return j.run(ctx, j.part)
		}); err != nil {
			return nil, err
		}
		for _, j := range now {
			for _, row := range j.part.rows {
				if row.Refused == "" && (best == nil || row.Relative < best.Relative) {
					best = row
				}
			}
		}
	}
	return nil, nil
}

// job is the part of a plan that one sequence of candidates makes.
type job struct {
	part *part
	sequence
}

// jobsOf are the jobs of settings, and the last of their stages. The twin of a setting comes after
// it.
func jobsOf(settings []*setting) (jobs []*job, last int) {
	for _, s := range settings {
		for _, one := range s.sequences() {
			j := &job{&part{setting: s}, one}
			if i := slices.IndexFunc(jobs, func(other *job) bool { return one.name == other.name && s.isTwin(other.part.setting) }); i >= 0 {
				j.part.twin = jobs[i].part
				j.stage++
			}
			jobs = append(jobs, j)
			last = max(last, j.stage)
		}
	}
	return jobs, last
}

// inParallel calls do for every item, on all processors, and returns the first error in the order
// of the items.
func inParallel[T any](ctx context.Context, items []T, do func(T) error) error {
	errs := parallel.Each(len(items), 0, func(i int) error { return do(items[i]) })
	return cmp.Or(ctx.Err(), cmp.Or(errs...))
}

// dpsgd is independent noise with Poisson sampling of units, k of one owner.
func (p *planning) dpsgd(units int64, k int) DPSGD {
	return DPSGD{Epsilon: p.Epsilon, Delta: p.Delta, Steps: p.Steps, Units: units, MaxPerOwner: k}
}

// takesPart is the probability that any of k examples takes part in any of the steps.
func takesPart(prob float64, k, steps int) float64 {
	return -math.Expm1(float64(k) * float64(steps) * math.Log1p(-prob))
}

// setBase finds the noise multiplier of DP-SGD, and refuses a δ for which none is needed.
func (s *setting) setBase() (err error) {
	if s.base, err = s.dpsgd(s.units(), s.most()).NoiseMultiplier(s.batch); err != nil || s.base > 0 {
		return err
	}
	most := takesPart(s.batch/float64(s.units()), s.most(), s.Steps)
	return param.Fault("delta", s.Delta,
		"must be below %.3g, the probability that an owner takes part in any of %s: else no noise is needed, and who takes part is not protected", most, words.Count(s.Steps, "step"))
}

// tolerated is how much more noise than DP-SGD's comes from rounding the batch size, and the grid
// of losses of either.
const tolerated = 1.002

// compare fills in what each row has beside DP-SGD, that is independent noise with Poisson sampling
// of as many of the same units: of sampled owners, for rows that sample owners.
func (p *planning) compare(out *Result) error {
	// Without a context: p keeps the result, and would keep the error of a context that has ended.
	independent := p.make(context.Background(), p.workload(mechanism.KindIdentity))
	if independent.err != nil {
		return independent.err
	}
	type size struct {
		units int64 // examples, or owners where the row samples them
		most  int   // of an owner
		batch float64
	}
	sigmas := map[size]float64{} // DP-SGD knows no strategy
	for _, row := range out.Rows {
		if row.Refused != "" {
			continue
		}
		at := size{row.run.Examples, row.run.MaxExamplesPerOwner, row.BatchSize}
		sigma, known := sigmas[at]
		if !known {
			var err error
			near := row.Noise.Multiplier / row.norm
			if sigma, err = p.dpsgd(at.units, at.most).noiseMultiplier(row.BatchSize, near); err != nil {
				return err
			}
			sigmas[at] = sigma
		}
		if sigma == 0 { // DP-SGD needs no noise
			row.MayBeWorse = true
			continue
		}
		row.StepNoise = row.step * row.BatchSize / sigma
		row.Forgetful = row.Noise.Multiplier * p.make(context.Background(), row.Strategy).shorter / row.BatchSize
		least := tolerated * sigma / row.BatchSize
		row.MayBeWorse = row.Relative > least*p.error(independent.error) || row.Forgetful > least*independent.shorter
	}
	return nil
}
