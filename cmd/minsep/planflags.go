package main

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/graphio"
	"minsep/internal/param"
	"minsep/internal/pipelines"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/sampling"
)

// mostPerOwner is the largest --max-per-owner if examples are sampled: the noise rises with it.
const mostPerOwner = 1000

// rowFlags are the flags of plan and prepare that do not set a field of the request directly.
type rowFlags struct {
	MaxPerOwner int     `flag:"max-per-owner" help:"most examples of an owner that are kept: plan tries from 1 up to it"`
	Epochs      float64 `flag:"epochs" help:"number of passes over the examples that are kept, or over the owners where only they are sampled, in place of --steps"`
	BatchSize   string  `flag:"batch-size" help:"expected batch size: of examples, or of owners where they are sampled; plan takes a range of sizes to try too, as in 128:1024"`
	Row         int     `flag:"row" help:"number of the row of minsep plan that is taken or written"`
}

// planFlags holds the flags of plan that do not set a field of the request directly.
type planFlags struct {
	rowFlags
	graph    []string
	read     graphio.Options
	Examples int64  `flag:"examples" help:"number of examples, each its own owner, in place of a graph"`
	Whom     string `flag:"unit" help:"whom the claim protects: owner, or example, which must be asked for by name and leaves owners of several examples unprotected"`
	All      bool   `flag:"all" help:"print the table of every candidate, in place of three lines on the first"`
}

// check completes the request from the flags and joins every fault of the flags. It returns one
// batch size, or the two ends of a range.
func (f *planFlags) check(ctx context.Context, r *planner.Request, a *app) (sizes []float64, err error) {
	c := param.Checker{}
	c.Require(
		(len(f.graph) > 0) != (f.Examples != 0),
		"graph and examples",
		nil,
		"exactly one of them must be given",
	)
	c.Require(f.Examples >= 0, "examples", f.Examples, "must be at least 1")
	c.Require(
		len(f.graph) == 0 || f.MaxPerOwner >= 1,
		"max-per-owner",
		f.MaxPerOwner,
		"must be given with a graph, and be at least 1",
	)
	c.Require(
		len(f.graph) > 0 || f.MaxPerOwner <= 1,
		"max-per-owner",
		f.MaxPerOwner,
		"needs --graph: numbered examples are each their own owner",
	)
	c.Requiref(
		f.MaxPerOwner <= mostPerOwner || r.Sample == sampling.SampleOwners,
		"max-per-owner",
		f.MaxPerOwner,
		"must be at most %d where examples are sampled, as the noise rises with it; --sample owners takes any number at no more noise, where each example has one owner",
		mostPerOwner,
	)
	c.Require((r.Steps != 0) != (f.Epochs != 0), "steps and epochs", nil, "exactly one of them must be given")
	c.Require(f.Epochs >= 0 && f.Epochs <= 1e9, "epochs", f.Epochs, "must be above 0 and at most 1e9")
	sizes, bad := batchSizes(f.BatchSize)
	shown := f.BatchSize
	if _, err := strconv.ParseFloat(shown, 64); err != nil {
		shown = strconv.Quote(shown)
	}
	c.Require(bad == "", "batch-size", shown, bad)
	c.Require(
		len(sizes) == 0 || sizes[0] >= 1,
		"batch-size",
		shown,
		"must be at least 1: it counts the examples of a batch, and is no part of the data",
	)
	c.Require(
		f.Epochs == 0 || len(sizes) < 2,
		"epochs",
		f.Epochs,
		"takes one batch size: plans of different numbers of steps cannot be compared; give --steps",
	)
	c.Require(
		!(r.Epsilon > 1000),
		"epsilon",
		r.Epsilon,
		"must be at most 1000: beyond it nobody is protected (docs/choosing.md)",
	)
	c.Require(
		a.out == "" || r.Coordinates > 0,
		"coordinates",
		r.Coordinates,
		"must be given where a plan is written: it makes noise for so many coordinates, the trained parameters of the model",
	)
	c.Require(
		slices.Contains(pipelines.Runners, a.runner),
		"runner",
		a.runner,
		"must be one of "+strings.Join(pipelines.Runners, ", "),
	)
	c.Require(f.Row >= 1, "row", f.Row, "must be at least 1")
	c.Require(a.out != "" || f.Row <= 1, "row", f.Row, "needs --out, the file to which the row is written")
	var unit accounting.Unit
	unit, err = accounting.ParseUnit(f.Whom)
	c.Add(err)
	r.Unit = unit
	// The other faults do not depend on the data, so they are found with a stand-in for it: before
	// the graph is read.
	probe := f.probe(r, sizes)
	c.Add(probe.Validate())
	c.Add(stages.FindScheduleFile(ctx, r.Workload))
	return sizes, c.Err()
}

// probe is the request with a stand-in for the data, which no fault of the flags depends on.
func (f *planFlags) probe(r *planner.Request, sizes []float64) planner.Request {
	// The stand-in has more examples than any batch size asks for, and owners to sample, so that it
	// adds no faults of its own.
	probe := *r
	probe.Populations, probe.Numbered = []planner.Population{{MaxPerOwner: 1, Examples: 1 << 40, Given: 1 << 40, Owners: 1 << 40}}, len(f.graph) == 0
	probe.BatchSizes = []float64{1}
	if len(sizes) > 0 {
		probe.BatchSizes = sizes
	}
	if probe.Steps == 0 {
		probe.Steps = 1
	}
	if probe.Coordinates == 0 {
		probe.Coordinates = 1
	}
	if r.Workload.ScheduleFile() != "" {
		probe.SetRates(slices.Repeat([]float64{1}, probe.Steps))
	}
	return probe
}

// batchSizes parses --batch-size: X, or a range X:Y. bad is the rule that the text breaks, if any.
func batchSizes(text string) (sizes []float64, bad string) {
	const rule = "must be a number above 0, or two with a colon between them, as in 128:1024"
	for _, part := range strings.Split(text, ":") {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil || !(x > 0) || math.IsInf(x, 1) {
			return nil, rule
		}
		sizes = append(sizes, x)
	}
	if len(sizes) > 2 || len(sizes) == 2 && sizes[1] <= sizes[0] {
		return nil, rule + ", the smaller one first"
	}
	return sizes, ""
}
