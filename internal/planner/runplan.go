package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"time"

	"minsep/internal/accounting"
	"minsep/internal/digits"
	"minsep/internal/ownergraph"
	"minsep/internal/stages"
)

// RunPlan is the plan for minsep run of a row. Graph is nil for numbered examples.
func (out *Result) RunPlan(row *Row, graph *stages.PlanGraph) stages.Plan {
	r := out.Request
	p := stages.Plan{Scheme: row.Scheme, Strategy: row.Strategy, Key: "key", Out: "run"}
	p.Privacy = stages.PlanPrivacy{Epsilon: r.Epsilon, Delta: r.Delta, AlsoEpsilon: further(r.Epsilon)}
	if r.Unit == accounting.UnitExample {
		p.Privacy.Unit = string(r.Unit)
	}
	if budget := budgetFor(row.needs); budget > 0 {
		p.Privacy.CPUTime = stages.CPUTime(budget.Truncate(time.Minute))
	}
	p.Noise = stages.PlanNoise{Coordinates: r.Coordinates, ClipNorm: 1}
	if graph == nil {
		p.Examples = row.Examples
	} else {
		p.Graph, p.Bound = graph, &ownergraph.Bound{MaxExamplesPerOwner: row.MaxPerOwner, Pools: row.Pools}
	}
	return p
}

// further are smaller ε at which a plan has δ certified too, of three digits. They bound attacks
// much lower than the claim alone does, at the same noise. Their δ is larger, so that they take
// fewer samples.
func further(epsilon float64) (list []float64) {
	for _, part := range []float64{0.125, 0.25, 0.5, 0.75} {
		x := digits.Nearest(part*epsilon, 3)
		if x > 0 && x < epsilon && !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}

// WritePlan is the text of a plan: JSON under a comment that says where it is from.
func (out *Result) WritePlan(row *Row, graph *stages.PlanGraph) ([]byte, error) {
	text, err := json.MarshalIndent(out.RunPlan(row, graph), "", "  ")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(
		&b,
		"// %s, by minsep plan: noise relative to the batch %s (%s).\n",
		row.Name(),
		figure(row.Relative, row.StdErr),
		out.Request.Objective,
	)
	fmt.Fprintf(
		&b,
		"// For minsep run, which certifies the noise multiplier. The key is made by minsep keygen.\n%s\n",
		text,
	)
	return b.Bytes(), nil
}
