package planner

import (
	"context"
	"fmt"
	"slices"

	"minsep/internal/accounting"
	"minsep/internal/stages"
	"minsep/mechanism"
	"minsep/sampling"
)

// NamedPlan is a plan for minsep run and the file that it is from.
type NamedPlan struct {
	Name   string
	Plan   stages.Plan         // without faults
	Matrix *mechanism.Workload // the matrix in the file of its workload; nil where the plan names none
}

// ComparePlans ranks plans for minsep run. Steps, workload, objective, whom they protect, ε and δ
// must be the same for all; graphs, batch sizes, schemes and strategies need not be. Strategies
// that are made for a Toeplitz workload are measured on the schedule, or the file, of others.
func ComparePlans(ctx context.Context, plans []NamedPlan, seed uint64, watch func(Progress)) (*Result, error) {
	if len(plans) < 2 {
		return nil, &ParamError{Param: "compare", Value: len(plans), Rule: "needs at least two plans"}
	}
	var requests []Request
	for _, n := range plans {
		r, err := requestOf(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		r.Seed, r.Watch = seed, watch
		requests = append(requests, r)
	}
	adapt(plans, requests)
	for i := range requests {
		if requests[i].Objective == RMSE { // a plan can hold MaxSE only, and the workload decides the others
			requests[i].Objective = ""
			requests[i].AssumeObjective()
		}
	}
	for i, r := range requests {
		if err := same(plans[0].Name, requests[0], plans[i].Name, r); err != nil {
			return nil, err
		}
	}
	all := requests[0]
	// One planning for all plans: strategies and curves that they share are made once.
	shared := &planning{Request: &all}
	var rows []*Row
	for i, n := range plans {
		r := requests[i]
		s := &setting{
			planning:   shared,
			population: r.Populations[0],
			owners:     n.Plan.Scheme.Sample == sampling.SampleOwners,
			batch:      r.BatchSizes[0],
		}
		if r.Pools != nil {
			s.rotation = r.rotates(s.batch)
		}
		if err := s.setBase(); err != nil {
			return nil, err
		}
		p := &part{setting: s, whole: true}
		row, err := p.evaluate(ctx, n.Plan.Scheme, n.Plan.Strategy)
		if err != nil {
			return nil, err
		}
		row.Plan = n.Name
		rows = append(rows, row)
		all.Populations = append(all.Populations[:i:i], r.Populations[0])
	}
	return shared.finish(ctx, rows)
}

// requestOf is the request with a plan as its only candidate.
func requestOf(ctx context.Context, n NamedPlan) (Request, error) {
	p := n.Plan
	r := Request{
		Steps:       p.Scheme.Steps,
		Epsilon:     p.Privacy.Epsilon,
		Delta:       p.Privacy.Delta,
		Workload:    p.Strategy,
		Objective:   RMSE,
		Coordinates: p.Noise.Coordinates,
	}
	if p.Strategy.Objective == mechanism.MaxError {
		r.Objective = MaxSE
	}
	unit, err := accounting.ParseUnit(p.Privacy.Unit)
	if err != nil {
		return r, err
	}
	r.Unit, r.matrix = unit, n.Matrix
	if p.Graph == nil {
		r.Numbered, r.Populations = true, []Population{{MaxPerOwner: 1, Examples: p.Examples, Given: p.Examples}}
	} else if p.Scheme.Scheme == "rotation" {
		if r.Pools, err = poolsOfPlan(ctx, p); err != nil {
			return r, err
		}
		r.Populations = []Population{r.Pools.population()}
	} else if r.Populations, err = Populations(ctx, p.Graph.Paths, p.Graph.Options(), []int{p.Bound.MaxExamplesPerOwner}); err != nil {
		return r, err
	}
	of := sampling.Population{
		Examples: r.Populations[0].Examples,
		Owners:   sampling.OwnerSizes{1: r.Populations[0].Owners},
	}
	if p.Scheme.Sample == sampling.SampleOwners && r.Populations[0].Owners == 0 {
		return r, &ParamError{Param: "sample", Field: "scheme.sample", Value: p.Scheme.Sample,
			Rule: "needs a graph in which each example has one owner: sample examples"}
	}
	spec, err := p.Scheme.Spec(of)
	if err != nil {
		return r, err
	}
	r.BatchSizes = []float64{spec.ExpectedBatchSize(of)}
	return r, r.Validate()
}

// poolsOfPlan are those that minsep run makes: as many as the plan says, or one for each period.
func poolsOfPlan(ctx context.Context, p stages.Plan) (*Pools, error) {
	graph, _, err := Load(ctx, p.Graph.Paths, p.Graph.Options())
	if err != nil {
		return nil, err
	}
	number := p.Bound.Pools
	if number == 0 {
		number = sampling.Rotation{Steps: p.Scheme.Steps, EpochSteps: p.Scheme.EpochSteps}.Periods()
	}
	pools, err := poolsOf(ctx, graph, number)
	if err == nil && pools == nil {
		err = &ParamError{
			Param: "graph",
			Field: "graph.paths",
			Value: p.Graph.Paths[0],
			Rule:  "leaves some pool without an example: take fewer pools",
		}
	}
	return pools, err
}

// adapt changes the workload of plans with a strategy that is made for Toeplitz workloads only,
// since their files cannot name another. It becomes the workload of the first plan with another
// kind of strategy. A plan is changed only if its own workload is the nearest to that one among
// those that its kind of strategy can be made for, or was the nearest before banded-toeplitz
// was made for any workload.
func adapt(plans []NamedPlan, requests []Request) {
	isToeplitz := func(n NamedPlan) bool { return slices.Contains(toeplitzKinds, n.Plan.Strategy.Kind) }
	first := slices.IndexFunc(plans, func(n NamedPlan) bool { return !isToeplitz(n) })
	if first < 0 {
		return
	}
	of := func(p mechanism.Params) [2]any {
		p.Steps = requests[first].Steps
		workload, training := p.MadeFor()
		return [2]any{workload, training}
	}
	for i := range requests {
		r, kind := &requests[i], plans[i].Plan.Strategy.Kind
		for _, made := range []mechanism.Params{requests[first].workload(kind), requests[first].measured(kind).ForToeplitz()} {
			if !isToeplitz(plans[i]) || of(r.Workload) != of(made) {
				continue
			}
			r.Workload, r.matrix = requests[first].Workload, requests[first].matrix
		}
	}
}

// same refuses plans that cannot be ranked by one figure.
func same(nameA string, a Request, nameB string, b Request) error {
	// Workloads are compared as strategies are made for them: two plans may
	// spell one workload differently.
	a.Workload.Steps, b.Workload.Steps = a.Steps, b.Steps
	workloadA, of := a.Workload.MadeFor()
	workloadB, other := b.Workload.MadeFor()
	for _, c := range []struct {
		field string
		a, b  any
	}{
		{"scheme.steps", a.Steps, b.Steps}, {"privacy.epsilon", a.Epsilon, b.Epsilon}, {"privacy.delta", a.Delta, b.Delta}, {"privacy.unit", a.Unit, b.Unit},
		{"strategy.workload", workloadA, workloadB}, {"strategy.optimizer", of.Optimizer, other.Optimizer}, {"strategy.momentum", of.Momentum, other.Momentum},
		{"strategy.weight_decay", of.WeightDecay, other.WeightDecay}, {"strategy.learning_rate", of.LearningRate, other.LearningRate},
		{"strategy.schedule", of.Schedule, other.Schedule}, {"strategy.warmup_steps", of.WarmupSteps, other.WarmupSteps}, {"strategy.memory", of.Memory, other.Memory},
		{"strategy.objective", a.Objective, b.Objective},
	} {
		if c.a != c.b {
			return &ParamError{
				Param: c.field,
				Field: c.field,
				Value: c.b,
				Rule: fmt.Sprintf(
					"of %s must be %v, as in %s: plans are compared for one training and one privacy budget",
					nameB,
					c.a,
					nameA,
				),
			}
		}
	}
	return nil
}
