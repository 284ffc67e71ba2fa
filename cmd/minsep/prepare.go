package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/accounting"
	"minsep/internal/digits"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/pipelines"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/sampling"
)

// A run directory that prepare has made has a folder with what was asked for, and the plan that
// prepare took. The request is written last: where it is, the plan is.
const (
	prepareFolder  = "prepare"
	preparedPlan   = "plan.json"
	prepareRequest = "request.json"
)

// usualExamplesPerOwner is the default of --examples-per-owner: more of an owner's examples make
// its mean gradient more exact, and take time, at no more noise.
const usualExamplesPerOwner = 8

// preparation is what a user says of a training, in the flags of prepare.
type preparation struct {
	planFlags
	planner.Request
	trainingOwn
	plan  string // file of a plan to take in place of a row of the table
	nouns words.Nouns
}

// trainingOwn are the flags of a training that plan does not have.
type trainingOwn struct {
	ExamplesPerOwner int     `flag:"examples-per-owner" help:"most examples that a sampled owner brings to a step (default 8)"`
	ClipNorm         float64 `flag:"clip-norm" help:"norm to which gradients are clipped"`
}

// prepared is the result of prepare: that of the run, and what a user must know of it.
type prepared struct {
	pipelines.RunResult
	Lines []string `json:"lines"` // claim, data and cost
	Next  []string `json:"next"`  // how to choose what prepare does not
	Key   string   `json:"key"`   // file of the root key
}

func prepareCommand(a *app) *cobra.Command {
	var p preparation
	c := &cobra.Command{
		Use:   "prepare FILE... --owner COLUMN (--epochs E | --steps N) --batch-size X --epsilon E --coordinates N [--out run]",
		Short: "Prepare a training in one command: plan, certificate, batches and the recipe of the noise",
		Long: `prepare reads who owns which examples, takes the first row of minsep plan, or --row N, and runs it: it bounds the contributions
of owners, certifies the noise multiplier, forms batches and writes the recipe of the noise. The result is a run directory. What was
asked for and the plan are in its folder ` + prepareFolder + `.

Where each example has one owner, owners take part in place of examples, and all examples take part: --batch-size then counts
owners, an epoch is a pass over the owners, and an owner brings up to --examples-per-owner of its examples, drawn afresh each time.
Where examples have several owners, --batch-size counts examples, and rotation, which keeps more of them, is taken where its row
is first: minsep plan says what it costs where another one is.

--owner and --example are short for --owner-column and --example-column.

A stopped command is repeated, and goes on. Other numbers for the same directory are refused.

The key is --key, or the file that MINSEP_KEY names, or ~/.config/minsep/key, which is made where there is none. Without its key no
training of the run can begin or go on: keep it.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.graph = args
			usualMomentum(cmd, &p.Workload)
			p.AssumeTraining()
			p.AssumeObjective()
			return prepare(a, cmd, p)
		},
	}
	a.addStageFlags(c)
	a.addJobFlags(c, "finished work is kept; the same command goes on from there")
	f := c.Flags()
	f.Lookup("key").Usage = "file of the root key (default: MINSEP_KEY, or ~/.config/minsep/key)"
	f.Lookup("out").Usage, f.Lookup("out").DefValue = "run directory to write to (default: run)", ""
	addFlags(f, &p.read)
	addFlags(f, &p.nouns)
	p.addTraining(f)
	f.StringVar(&p.plan, "plan", "", "file of a plan to take in place of a row of minsep plan")
	f.SetNormalizeFunc(shortColumns)
	return c
}

// shortColumns takes --owner and --example for the flags of columns.
func shortColumns(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "owner" || name == "example" {
		name += "-column"
	}
	return pflag.NormalizedName(name)
}

// addTraining adds the flags that decide the training, and stand in a plan.
func (p *preparation) addTraining(f *pflag.FlagSet) {
	p.Row, p.ClipNorm = 1, 1
	addFlags(f, &p.rowFlags)
	addFlags(f, &p.Request)
	addFlags(f, &p.trainingOwn)
	addFlags(f, &p.Workload.Training)
	f.Lookup("max-per-owner").Usage = "most examples of an owner that are kept (default: all where owners are sampled, else 1)"
	f.Lookup("delta").Usage = "delta of the claim (default: a tenth of one over the number of owners)"
}

// prepare plans and runs, or goes on with the plan that an earlier call has taken.
func prepare(a *app, cmd *cobra.Command, p preparation) error {
	ctx := cmd.Context()
	a.out = cmp.Or(a.out, "run")
	if err := p.nouns.NounFaults(); err != nil {
		return err
	}
	asked := p.asked(cmd)
	folder := store.Join(a.out, prepareFolder)
	known, err := askedBefore(a, ctx, folder, asked)
	if err != nil {
		return err
	}
	key, err := findKey(a)
	if err != nil {
		return err
	}
	a.key = key
	o := a.options()
	c := param.Checker{}
	if o.Validate(&c); c.Err() != nil { // before the search for a plan
		return c.Err()
	}
	var plan stages.Plan
	if known {
		if plan, err = readPlan(ctx, store.Join(folder, preparedPlan)); err == nil && plan.Graph != nil {
			plan.Graph.Paths = p.graph
		}
		plan.Nouns = words.Nouns{} // those of run.json may be later ones
	} else {
		plan, err = choose(a, cmd, p)
	}
	if err != nil {
		return err
	}
	plan.Key, plan.Out, plan.Nouns = key, a.out, p.nouns.NounsOr(plan.Nouns)
	if !known && !a.dryRun {
		if err := writePrepared(ctx, folder, plan, asked); err != nil {
			return err
		}
	}
	result, err := pipelines.RunPlan(ctx, plan, o, pipelines.Settings{Watch: a.watch})
	if err != nil && result.NotCertified != nil && unverified(err) {
		err = newNotCertified(err, *result.NotCertified, plan.Privacy.NoiseMultiplier, true)
	}
	if err != nil {
		return err
	}
	done := prepared{RunResult: result, Key: key}
	if !a.dryRun {
		if err := describePrepared(ctx, plan, &done); err != nil {
			return err
		}
	}
	return a.print(done, func(w io.Writer) { printPrepared(w, done, a.dryRun) })
}

// places are flags that say where things are, and do not decide the training.
var places = []string{
	"out",
	"key",
	"json",
	"quiet",
	"dry-run",
	"log-level",
	"work-dir",
	"runner",
	"owner-noun",
	"example-noun",
}

// asked returns the flags that were given and decide the training, by name. The data are not among
// them: the record of the run has their digest.
func (p preparation) asked(cmd *cobra.Command) map[string]string {
	asked := map[string]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(places, f.Name) {
			asked["--"+f.Name] = strings.Trim(f.Value.String(), "[]")
		}
	})
	return asked
}

// askedBefore reports whether the run directory was prepared from this same request. A directory of
// another request is refused with what differs.
func askedBefore(a *app, ctx context.Context, folder string, asked map[string]string) (bool, error) {
	text, err := stages.ReadFile(ctx, store.Join(folder, prepareRequest))
	if errors.Is(err, fs.ErrNotExist) {
		there, err := stages.Holds(ctx, a.out)
		if err == nil && there != "" {
			err = param.Fault("out", a.out, "is a run directory that prepare has not made: give another --out")
		}
		return false, err
	}
	if err != nil {
		return false, err
	}
	now, err := json.Marshal(asked)
	if err != nil {
		return false, err
	}
	differs := stages.JSONDifferences(text, now, "now")
	if differs == nil {
		return true, nil
	}
	return false, &param.Error{Param: "out", Value: a.out,
		Rule: "was prepared for another training: " + strings.Join(differs, "; ") + "; give another --out, or the numbers of before"}
}

// writePrepared writes the plan, and then the request.
func writePrepared(ctx context.Context, folder string, plan stages.Plan, asked map[string]string) error {
	if err := store.MkdirAll(ctx, folder, 0o700); err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content any
	}{{preparedPlan, plan}, {prepareRequest, asked}} {
		text, err := json.MarshalIndent(file.content, "", "  ")
		if err != nil {
			return err
		}
		if err := store.WriteFile(ctx, store.Join(folder, file.name), store.Options{Mode: 0o600}, append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// choose reads the graph, compares mechanisms and returns the plan of the chosen row, or takes the
// plan of a file.
func choose(a *app, cmd *cobra.Command, p preparation) (stages.Plan, error) {
	stop := a.watch("plan")
	defer stop()
	if p.plan != "" {
		return takePlan(a, cmd, p)
	}
	if err := checkPrepared(a, cmd.Context(), &p); err != nil {
		return stages.Plan{}, err
	}
	if err := readSchedule(cmd.Context(), &p.Request); err != nil {
		return stages.Plan{}, err
	}
	graph, err := p.load(a, cmd)
	if err != nil {
		return stages.Plan{}, err
	}
	p.useGraph(graph)
	p.Watch = watchPlan
	if err := p.bound(cmd.Context(), graph, &p.Request, []int{p.MaxPerOwner}); err != nil {
		return stages.Plan{}, err
	}
	out, err := p.Request.Plan(cmd.Context())
	if errors.Is(err, planner.ErrNone) && out != nil {
		return stages.Plan{}, fmt.Errorf("%w\n%s", err, strings.Join(out.Why, "\n"))
	}
	if err != nil {
		return stages.Plan{}, err
	}
	row, err := chosen(out, p.Row)
	if err != nil {
		return stages.Plan{}, err
	}
	plan := out.RunPlan(row, &stages.PlanGraph{Paths: slices.Clone(p.graph), Options: p.read})
	if p.Sample == sampling.SampleOwners {
		plan.Scheme.ExamplesPerOwner = min(p.MaxPerOwner, cmp.Or(p.ExamplesPerOwner, usualExamplesPerOwner))
	}
	plan.Noise.ClipNorm = p.ClipNorm
	plan.Noise.Words = string(noise.ChaCha12) // which devices can make as well
	if out.MoreData != "" {
		a.say(out.MoreData)
	}
	if row.MayBeWorse {
		a.say("warning: it may train worse than DP-SGD: minsep plan --all says by what, and which rows do not")
	}
	return plan, nil
}

// checkPrepared joins the faults of the flags that can be told without the data.
func checkPrepared(a *app, ctx context.Context, p *preparation) error {
	c := param.Checker{}
	c.Require(p.ExamplesPerOwner >= 0, "examples-per-owner", p.ExamplesPerOwner, "must be at least 1")
	// A stand-in for what is known with the data only: the default of delta, and how many examples are
	// kept.
	probe := *p
	probe.Delta, probe.MaxPerOwner = cmp.Or(p.Delta, 1e-6), cmp.Or(p.MaxPerOwner, 1)
	sizes, err := probe.planFlags.check(ctx, &probe.Request, a)
	c.Add(err)
	c.Require(len(sizes) < 2, "batch-size", p.BatchSize, "must be one number")
	p.BatchSizes, p.Unit = sizes, accounting.UnitOwner
	return c.Err()
}

// useGraph sets what follows from the data unless the user has said it: the unit that takes part,
// the bound, and delta.
func (p *preparation) useGraph(graph *ownergraph.Graph) {
	most, shared := 1, planner.Shared(graph)
	counts := make([]int, graph.Owners.Len())
	for e := range graph.Examples.Len() {
		for _, owner := range graph.OwnersOf.At(e) {
			counts[owner]++
			most = max(most, counts[owner])
		}
	}
	if p.Sample == "" {
		p.Sample = sampling.SampleExamples
		if !shared && most > 1 && p.MaxPerOwner == 0 {
			p.Sample = sampling.SampleOwners
		}
	}
	if p.Sample == sampling.SampleOwners {
		p.MaxPerOwner = cmp.Or(p.MaxPerOwner, most)
	}
	p.MaxPerOwner = cmp.Or(p.MaxPerOwner, 1)
	if p.Delta == 0 {
		p.Delta = digits.Down(0.1/float64(max(1, graph.Owners.Len())), 2)
	}
}

// takePlan is the plan of a file, for the data of the command.
func takePlan(a *app, cmd *cobra.Command, p preparation) (stages.Plan, error) {
	c := param.Checker{}
	inPlan := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(preparation).addTraining(inPlan)
	inPlan.VisitAll(func(f *pflag.Flag) {
		given := cmd.Flags().Lookup(f.Name)
		c.Require(!given.Changed || f.Name == "coordinates", f.Name, nil, "must be left out with --plan: the plan decides the training")
	})
	plan, err := readPlan(cmd.Context(), p.plan)
	c.Add(err)
	if err := c.Err(); err != nil {
		return plan, err
	}
	c.Require(plan.Graph != nil, "plan", p.plan, "must be for a graph: its examples are numbers without owners")
	c.Requiref(
		p.Coordinates == 0 || p.Coordinates == plan.Noise.Coordinates,
		"coordinates",
		p.Coordinates,
		"must be those of the plan, %d", plan.Noise.Coordinates,
	)
	plan.Graph, plan.Noise.Files = &stages.PlanGraph{Paths: slices.Clone(p.graph), Options: p.read}, false
	return plan, c.Err()
}

// describePrepared says of a finished run in three lines whom it protects and how well, how much of the data
// takes part, and what it costs; why its claim is weak, if it is; and how to choose what prepare does not choose.
func describePrepared(ctx context.Context, plan stages.Plan, done *prepared) error {
	c, err := stages.ReadCertificate(ctx, done.Out)
	if err != nil || c == nil {
		return err
	}
	run, err := manifest.ReadRun(ctx, done.Out)
	if err != nil {
		return err
	}
	nouns := run.NounsOr(words.UsualNouns)
	examples := words.Plural(nouns.ExampleNoun)
	whom := c.Unit.Protected(c.Run, nouns)
	if done.Protected > 0 {
		whom += fmt.Sprintf(", of %s", words.Grouped(done.Protected))
	}
	claim := fmt.Sprintf(
		"claim  (%g, %g)-DP for %s; %s, noise multiplier %s",
		c.Epsilon,
		c.Delta,
		whom,
		statusText(string(c.Status), done.Weak),
		accounting.RoundedUp(c.NoiseMultiplier, 4),
	)
	done.Lines = []string{claim}
	for _, why := range done.Weak {
		done.Lines = append(done.Lines, "weak   "+why)
	}
	used := cmp.Or(
		strings.TrimPrefix(done.Kept, "kept "),
		fmt.Sprintf("all %s %s", words.Grouped(done.Examples), examples),
	)
	used = strings.Replace(used, "examples", examples, 1)
	batches := fmt.Sprintf("%s of about %.6g", words.Count(plan.Scheme.Steps, "step"), done.ExpectedBatchSize)
	data := fmt.Sprintf("data   %s; %s %s", used, batches, examples)
	if done.Owners > 0 {
		data = fmt.Sprintf(
			"data   %s; %s %s, each with up to %d of its %s, drawn afresh",
			used,
			batches,
			words.Plural(nouns.OwnerNoun),
			plan.Scheme.ExamplesPerOwner,
			examples,
		)
	}
	own, err := c.Run.Strategy.StepNoise()
	if err != nil {
		return err
	}
	clip := cmp.Or(plan.Noise.ClipNorm, 1)
	each := clip * c.NoiseMultiplier * own / done.ExpectedBatchSize
	cost := fmt.Sprintf(
		"cost   gradients are clipped to norm %g, and their mean gets noise of %.3g in each of %s coordinates, norm %.3g; without privacy there is none",
		clip,
		each,
		words.Grouped(plan.Noise.Coordinates),
		each*math.Sqrt(float64(plan.Noise.Coordinates)),
	)
	rate := "the one you would take without privacy"
	if s := planner.StepNoiseOf(c, c.NoiseMultiplier); s != nil {
		cost += "; a step of DP-SGD has " + words.Times(1/s.Ratio)
		if s.Ratio > 1 {
			cost += ", but no later step takes a part of it back"
			rate += fmt.Sprintf(", over %.3g (run.step_noise)", s.Ratio)
		}
	}
	done.Lines = append(done.Lines, data, cost)
	done.Next = []string{
		fmt.Sprintf(
			"clip norm: %g. A better one is the median norm of gradients of public data, or of data that a private training has released; never of these data themselves",
			clip,
		),
		"learning rate: begin with " + rate + ", and choose by public data; each further training on these data counts (minsep compose)",
	}
	return nil
}

func printPrepared(w io.Writer, done prepared, dry bool) {
	if dry {
		printRun(w, done.RunResult, true)
		return
	}
	for _, line := range slices.Concat(done.Lines, done.Next) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(
		w,
		"run    %s, with the plan in %s and the key %s\nnext   minsep report %s\n",
		done.Out,
		store.Join(done.Out, prepareFolder, preparedPlan),
		done.Key,
		done.Out,
	)
}
