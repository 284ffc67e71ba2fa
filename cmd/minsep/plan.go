package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/transforms/progress"
	"minsep/internal/words"
	"minsep/sampling"
)

// planTable explains the columns of plan's table.
const planTable = `Columns of the table:
  =1            tied: estimates do not tell it from the first row
  k_u           most examples of an owner that are kept (--max-per-owner)
  batch         expected batch size
  σ             noise multiplier; ≥ may be too small
  ±             standard error of σ; none where σ is proven
  rmse/batch    noise in the models of the training over the batch size:
                less is better, and rows rank by it; ! is more than DP-SGD
  latese/batch  the same over the second half of the steps, with a schedule
  at N          the same for a model that forgets a step after N steps
  step          noise of a single step over DP-SGD's: above 1 is usual, as
                later steps take a part back; Adam prefers less; - where
                DP-SGD needs no noise
  each          times that an example takes part, on average
  kept          part of the examples that take part
  state         numbers of 8 bytes that the noise keeps for each parameter
  certificate   processor time of a certificate; ≥ leaves out H(Q,P), one of
                its two directions`

func planCommand(a *app) *cobra.Command {
	var r planner.Request
	var f planFlags
	c := &cobra.Command{
		Use:   "plan (--graph PATH --max-per-owner K | --examples N) (--steps N | --epochs E) --batch-size X[:Y] --epsilon E --delta D [--out plan.json]",
		Short: "Compare sampling schemes and strategies, and choose one",
		Long: `plan finds the noise multiplier that each sampling scheme and strategy needs for (E, D)-differential privacy, and ranks them
by the noise that they leave in the models of the training, relative to the batch. It writes the best as a plan for minsep run, or
with --row N the row of that number.

Noise multipliers are proven without samples where that is possible. Others are estimates with a standard error, and certify
nothing. The first is among the best, and not worse than DP-SGD: the errors of the estimates do not separate it from those that
--all shows as tied, and noise is not the only thing that a model depends on.

With a graph, numbers of examples per owner from 1 to K are tried (1, 2, 3, 4, 8, 16 and so on, and K), on the examples that
bounding keeps: several examples per owner take minutes. With X:Y, batch sizes from X to Y are tried.

Where each example has one owner, owners are tried in place of examples too (--sample owners of account): batches then have
as many owners as they would have examples, each with one example, and K is the largest. --sample owners tries owners only,
which takes seconds for any K: give the most examples that an owner has, to keep all.

` + planTable,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			usualMomentum(cmd, &r.Workload)
			// Before the flags are checked: the check must see the workload and the objective that the plan
			// will have, and the plan says that they were assumed.
			r.AssumeTraining()
			r.AssumeObjective()
			if err := a.begin(); err != nil {
				return err
			}
			stop := a.watch("plan")
			out, err := planRequest(a, cmd, r, f)
			stop()
			// A plan that was stopped, one in which nothing can be used, and one with another row than asked
			// for still have a table: the user waited for it.
			if out == nil || err != nil && !errors.Is(err, planner.ErrNone) && !ofRow(err) && !out.Stopped {
				return err
			}
			return errors.Join(
				a.print(
					out,
					func(w io.Writer) { printPlan(w, out, f.All || ofRow(err)); printWritten(a, w, err, f.Row) },
				),
				err,
			)
		},
	}
	x := c.Flags()
	addGraphFlags(x, &f.graph, &f.read)
	f.Row = 1
	addFlags(x, &f)
	addFlags(x, &r)
	addFlags(x, &r.Workload.Training)
	x.StringVar(&a.out, "out", "", "file to write the best row to, as a plan for minsep run")
	x.StringVar(&a.workDir, "work-dir", "", "folder for temporary files (default: the system's, $TMPDIR)")
	return c
}

// planRequest ranks the candidates that the flags ask for, and writes the chosen row to --out.
func planRequest(a *app, cmd *cobra.Command, r planner.Request, f planFlags) (*planner.Result, error) {
	ctx := cmd.Context()
	// Every fault of the flags is told before the graph is read, which may take minutes.
	sizes, err := f.check(ctx, &r, a)
	if err != nil {
		return nil, err
	}
	if err := mayWriteFile(a); err != nil {
		return nil, err
	}
	if err := readSchedule(ctx, &r); err != nil {
		return nil, err
	}
	r.BatchSizes = sizes
	r.Populations = []planner.Population{{MaxPerOwner: 1, Examples: f.Examples, Given: f.Examples}}
	r.Numbered = len(f.graph) == 0
	var read *stages.PlanGraph
	if r.Numbered {
		err = f.setSteps(&r)
	} else {
		read = &stages.PlanGraph{Paths: slices.Clone(f.graph), Options: f.read}
		err = f.readGraph(a, cmd, &r)
	}
	if err != nil {
		return nil, err
	}
	r.Watch = watchPlan
	if len(sizes) == 2 {
		r.BatchSizes = planner.BatchSizes(sizes[0], sizes[1])
	}
	out, err := r.Plan(ctx)
	if err == nil {
		err = out.Time(ctx, f.Row)
	}
	// Last, so that no plan is written while its table is unfinished.
	if err == nil && a.out != "" {
		err = writePlan(a, out, read, f.Row)
	}
	return out, err
}

// readSchedule reads the file of the request's schedule, if it names one.
func readSchedule(ctx context.Context, r *planner.Request) error {
	rates, err := stages.ReadScheduleFile(ctx, r.Workload)
	r.SetRates(rates)
	return err
}

// readGraph sets the data of a request by a graph: the examples that each bound keeps.
func (f *planFlags) readGraph(a *app, cmd *cobra.Command, r *planner.Request) error {
	graph, err := f.load(a, cmd)
	if err != nil {
		return err
	}
	// Where the number of an owner's examples costs no noise, only the largest is tried.
	perOwner := planner.PerOwner(f.MaxPerOwner)
	if r.Unit == accounting.UnitExample || r.Sample == sampling.SampleOwners {
		perOwner = []int{f.MaxPerOwner}
	}
	return f.bound(cmd.Context(), graph, r, perOwner)
}

// load reads the graph, and passes on what is odd about it.
func (f *planFlags) load(a *app, cmd *cobra.Command) (*ownergraph.Graph, error) {
	progress.Enter("reading owners and examples", "", 0, 0)
	graph, warning, err := planner.Load(cmd.Context(), f.graph, f.read)
	if warning != nil {
		for line := range strings.SplitSeq(message(cmd, warning), "\n") {
			a.say("warning: " + line)
		}
	}
	return graph, err
}

// bound bounds the graph once for each number of examples per owner, and sets the steps.
func (f *planFlags) bound(ctx context.Context, graph *ownergraph.Graph, r *planner.Request, perOwner []int) (err error) {
	progress.Enter("bounding the graph", "", 0, 0)
	sizes := r.BatchSizes
	periods := func(kept int64) int { // number of pools for a rotation with the largest batches
		if !r.Rotates() {
			return 0
		}
		steps := max(float64(r.Steps), f.Epochs*float64(kept)/sizes[0])
		return int(math.Ceil(steps * sizes[len(sizes)-1] / float64(max(1, kept))))
	}
	r.Populations, r.Pools, err = planner.Data(ctx, graph, perOwner, periods)
	if err != nil {
		return err
	}
	return f.setSteps(r)
}

// setSteps sets the number of steps of so many passes over what takes part: owners, if only they are
// sampled, else examples. They are those that the largest bound keeps, so that plans of different
// bounds have the same number of steps, and can be compared.
func (f *planFlags) setSteps(r *planner.Request) error {
	if f.Epochs == 0 {
		return nil
	}
	most, size := r.Populations[len(r.Populations)-1], r.BatchSizes[0]
	units, of := most.Examples, "example"
	if r.Sample == sampling.SampleOwners && most.Owners > 0 {
		units, of = most.Owners, "owner"
	}
	steps := math.Ceil(f.Epochs*float64(units)/size - 1e-9)
	if steps > planner.MaxSteps {
		return param.Fault("epochs", f.Epochs,
			"are %.6g steps of %g of %s; must be at most %d steps: give larger batches, or fewer epochs", steps, size, words.Count(units, of), planner.MaxSteps)
	}
	r.Steps = max(1, int(steps))
	return nil
}

// watchPlan reports the planner's progress to the progress line.
func watchPlan(p planner.Progress) {
	progress.Enter(words.Count(p.Done, "candidate")+" done; now "+p.Text, "", 0, 0)
}

// chosen returns the row with a number of the table, or an error that says why it cannot be used.
func chosen(out *planner.Result, number int) (*planner.Row, error) {
	usable := 0
	for _, row := range out.Rows {
		usable = max(usable, row.Rank)
		if row.Rank == number {
			return row, nil
		}
	}
	fault := param.Fault("row", number, "there is no such row: must be 1 to %d", usable)
	if number <= len(out.Rows) {
		fault.Rule = fmt.Sprintf("cannot be used: %s; must be 1 to %d", out.Rows[number-1].Refused, usable)
	}
	return nil, fault
}

// ofRow reports whether err is about --row. The table is then printed all the same, to choose from.
func ofRow(err error) bool {
	var fault *param.Error
	return errors.As(err, &fault) && fault.Param == "row"
}

// writePlan writes a row of the table to --out, as a plan for minsep run.
func writePlan(a *app, out *planner.Result, graph *stages.PlanGraph, number int) error {
	row, err := chosen(out, number)
	if err != nil {
		return err
	}
	text, err := out.WritePlan(row, graph)
	if err != nil {
		return err
	}
	return store.WriteFile(context.Background(), a.out, store.Options{Mode: manifest.PublicFile, New: true}, text)
}

// printWritten prints where the plan was written, and the next command.
func printWritten(a *app, w io.Writer, err error, row int) {
	if a.out != "" && err == nil {
		fmt.Fprintf(w, "\nwritten  %s (row %d)\nnext     minsep run %s\n", a.out, row, a.out)
	}
}
