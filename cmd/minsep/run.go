package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
)

func runCommand(a *app) *cobra.Command {
	var how pipelines.Settings
	var example bool
	c := &cobra.Command{
		Use:   "run PLAN.json",
		Short: "Run a whole plan, from a graph to certificate, batches and noise",
		Long: `run makes a run directory with a certificate, batches and noise from a plan: a graph or a number of examples, and all
parameters of a training run. The noise has the multiplier of the certificate.

Stages: ` + strings.Join(stages.Names(), ", ") + `. A stage whose result exists and matches is skipped. A stopped or killed command resumes when it is repeated, with the same
result. Another plan is refused: nothing is ever overwritten.

One run serves one training. --again NEW makes another run in a new directory NEW, of this plan or of a changed one. It takes
over from the directory that the plan or --out names what still holds: table, strategy and certificate. Batches and noise are
its own. The certificate is for each run alone: several runs of which anything is released compose (minsep compose).

Start with:  minsep run --example > plan.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if example && len(args) > 0 {
				return usageError{
					fmt.Errorf(
						"run --example prints a plan to start from, and takes none: leave out %s, or --example",
						args[0],
					),
				}
			}
			if example {
				_, err := io.WriteString(a.stdout, stages.PlanExample)
				return err
			}
			if len(args) == 0 {
				return usageError{errors.New("run: name a plan; see minsep run --help")}
			}
			// Unlike a stage's, the flags' faults are told before the plan is read: without a plan there are
			// no others to tell them with.
			o := a.options()
			if a.zeros != nil {
				return a.zeros
			}
			plan, err := readPlan(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			// The plan's paths are relative too, and stages make them absolute in their messages.
			a.showAs(plan.Out, plan.Key)
			if plan.Graph != nil {
				a.showAs(plan.Graph.Paths...)
			}
			how.Watch = a.watch
			result, err := pipelines.RunPlan(cmd.Context(), plan, o, how)
			if errors.As(err, new(*noise.GrowthError)) {
				return usageError{err}
			}
			// Not certified is a result: the stages that are done and the estimates are printed, and the
			// exit code says the rest.
			if err != nil && result.NotCertified != nil && unverified(err) {
				err = newNotCertified(err, *result.NotCertified, plan.Privacy.NoiseMultiplier, true)
				return errors.Join(
					a.print(
						result,
						func(w io.Writer) { printRun(w, result, false); printNotCertified(w, *result.NotCertified) },
					),
					err,
				)
			}
			if err != nil {
				return err
			}
			if result.Reason != "" {
				a.say(a.stderr, slog.LevelWarn, fmt.Sprintf("warning: %s: %s", result.Status, result.Reason))
			}
			return a.print(result, func(w io.Writer) { printRun(w, result, a.dryRun) })
		},
	}
	a.addStageFlags(c)
	a.addJobFlags(c, "finished work is kept; the same command goes on from there")
	f := c.Flags()
	f.Lookup("key").Usage = "file of the root key, instead of the plan's"
	f.Lookup("out").Usage = "run directory to write to, instead of the plan's"
	addFlags(f, &how)
	f.BoolVar(&example, "example", false, "print a commented plan to start from")
	return c
}

// readPlan reads the plan that a user names.
func readPlan(ctx context.Context, path string) (stages.Plan, error) {
	text, err := stages.ReadFile(ctx, path)
	if errors.Is(err, store.ErrNotRegular) {
		err = &param.Error{
			Param: "plan",
			Value: path,
			Rule:  "must be a file: minsep run --example prints a plan to start from",
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = &param.Error{Param: "plan", Value: path, Rule: "does not exist: minsep plan --out " + shellWord(path) + " writes one, and minsep run --example prints one to start from"}
	}
	if err != nil {
		return stages.Plan{}, err
	}
	return stages.ParsePlan(path, text)
}

// oneOf formats the number of owners or examples among which the protected one hides; "" if
// unknown.
func oneOf(n int64) string {
	if n == 0 {
		return ""
	}
	return ", one of " + words.Grouped(n)
}

func printNotCertified(w io.Writer, r pipelines.AccountResult) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintf(t, "not certified\t(%g, %g)-DP", r.Epsilon, r.Delta)
	if r.Method != "" {
		fmt.Fprintf(t, "; method: %s", r.Method)
	}
	fmt.Fprintln(t)
	if r.Estimate > 0 {
		fmt.Fprintf(t, "estimated noise multiplier\t%.5g, which certifies nothing\n", r.Estimate)
	}
	printEstimates(t, r)
}

func printRun(w io.Writer, r pipelines.RunResult, dry bool) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	// Only public facts are printed: no size of a batch, and no number that follows from one.
	if r.PlanSHA256 != (manifest.Digest{}) { // zero if the plan was refused
		fmt.Fprintf(t, "plan SHA-256\t%s\n", r.PlanSHA256)
	}
	if r.RunID != "" {
		fmt.Fprintf(t, "run\t%s\t%s\n", r.RunID, r.Out)
	}
	if n := len(r.Earlier); n > 0 {
		fmt.Fprintf(
			t,
			"taken over\tfrom %s; the certificate is for each training alone, and minsep compose adds up several\n",
			plural(n, "earlier run"),
		)
	}
	if r.Examples > 0 {
		if r.Kept != "" {
			fmt.Fprintf(t, "kept\t%s", strings.TrimPrefix(r.Kept, "kept "))
		} else {
			fmt.Fprintf(t, "kept\t%s", plural(int(r.Examples), "example"))
		}
		if r.Copies != r.Examples {
			fmt.Fprintf(t, ", %s", copies(r.Copies))
		}
		fmt.Fprintln(t)
	}
	if r.ExpectedBatchSize > 0 {
		fmt.Fprintf(t, "expected batch size\t%s\n", batchSize(r.ExpectedBatchSize, r.Owners, r.ExpectedExamples))
	}
	if r.Status != "" {
		fmt.Fprintf(
			t,
			"%s\t(%g, %g)-DP at noise multiplier %s\n",
			statusText(r.Status, r.Weak),
			r.Epsilon,
			r.Delta,
			accounting.RoundedUp(r.NoiseMultiplier, 6),
		)
		printWeak(t, r.Weak)
		fmt.Fprintf(t, "protects\t%s%s\n", r.Protects, oneOf(r.Protected))
		printWorse(
			t,
			r.Beside,
			r.WithoutSamples,
			stages.WithFields(r.Unused),
			"privacy.cpu_time or privacy.samples",
		)
	}
	if r.Warning != "" {
		fmt.Fprintf(t, "warning\t%s\n", r.Warning)
	}
	t.Flush()
	if dry {
		printEstimate(w, r.Stages)
		return
	}
	for _, s := range r.Stages {
		fmt.Fprintf(t, "%s\t%s\t%.1f s\t%s", s.Stage, s.State, s.Seconds, s.Path)
		if s.Files > 0 {
			fmt.Fprintf(t, "\t%s", plural(s.Files, "file"))
		}
		fmt.Fprintln(t)
	}
	if r.Seconds > 0 {
		fmt.Fprintf(t, "in all\t\t%.1f s\n", r.Seconds)
	}
	if slices.ContainsFunc(r.Stages, func(s pipelines.StageRun) bool { return s.Stage == "noise" }) {
		t.Flush()
		fmt.Fprintf(w, "next  minsep inspect %s\n", r.Out)
	}
}

// printEstimate prints a dry run's estimates of the stages: rows, files, bytes.
func printEstimate(w io.Writer, stages []pipelines.StageRun) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	fmt.Fprintf(t, "\nexpected\tstate\trows\tfiles\tbytes\t\n")
	size := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return words.Grouped(n)
	}
	for _, s := range stages {
		e := s.Estimate
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t\n", s.Stage, s.State, size(e.Rows), e.Files, size(e.Bytes))
	}
	fmt.Fprintf(t, "\n")
	t.Flush()
	for _, s := range stages {
		if s.Aside != nil {
			fmt.Fprintf(
				w,
				"%s: the verification that was begun there is set aside, and its failure probability counts: %s\n\n",
				s.Stage,
				strings.Join(s.Aside, "; "),
			)
		}
		if most := s.Estimate.SuggestedMaxBatchSize; most > 0 {
			fmt.Fprintf(
				w,
				"a maximum batch size (scheme.max_batch_size) of %s or more adds at most %g %% to delta\n\n",
				words.Grouped(int64(most)),
				100*accounting.SuggestedShare,
			)
		}
		if s.Estimate.Outlook != nil {
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprintf(t, "account\tof (epsilon, delta)-DP by samples\n")
			printOutlook(t, *s.Estimate.Outlook)
			t.Flush()
		} else if s.Stage == "account" && s.Estimate.Sampled && s.State != pipelines.StageSkipped {
			fmt.Fprintf(
				w,
				"account: whether the budget is enough depends on the data: minsep account --dry-run says, after minsep run --until strategy\n",
			)
		}
	}
}
