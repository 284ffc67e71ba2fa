package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
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
			o := a.options()
			plan, err := readPlan(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			how.Watch = a.watch
			result, err := pipelines.RunPlan(cmd.Context(), plan, o, how)
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
				a.say(fmt.Sprintf("warning: %s: %s", result.Status, result.Reason))
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
	const most = 256 << 10 // see [strictjson.Plain]
	text, err := store.ReadText(ctx, path, most)
	if errors.Is(err, store.ErrNotRegular) {
		err = param.Fault("plan", path, "must be a file: minsep run --example prints a plan to start from")
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
	t := newTable(w)
	defer t.Flush()
	method := ""
	if r.Method != "" {
		method = "; method: " + string(r.Method)
	}
	t.row("not certified\t(%g, %g)-DP%s", r.Epsilon, r.Delta, method)
	if r.Estimate > 0 {
		t.row("estimated noise multiplier\t%.5g, which certifies nothing", r.Estimate)
	}
	printMultiOwner(t, r)
}

func printRun(w io.Writer, r pipelines.RunResult, dry bool) {
	t := newTable(w)
	defer t.Flush()
	// Only public facts are printed: no size of a batch, and no number that follows from one.
	if r.PlanSHA256 != (manifest.Digest{}) { // zero if the plan was refused
		t.row("plan SHA-256\t%s", r.PlanSHA256)
	}
	if r.RunID != "" {
		t.row("run\t%s\t%s", r.RunID, r.Out)
	}
	if n := len(r.Earlier); n > 0 {
		t.row(
			"taken over\tfrom %s; the certificate is for each training alone, and minsep compose adds up several",
			plural(n, "earlier run"),
		)
	}
	if r.Examples > 0 {
		kept := cmp.Or(strings.TrimPrefix(r.Kept, "kept "), plural(r.Examples, "example"))
		if r.Copies != r.Examples {
			kept += ", " + copies(r.Copies)
		}
		t.row("kept\t%s", kept)
	}
	if r.ExpectedBatchSize > 0 {
		t.row("expected batch size\t%s", batchSize(r.ExpectedBatchSize, r.Owners, r.ExpectedExamples))
	}
	if r.Status != "" {
		t.row(
			"%s\t(%g, %g)-DP at noise multiplier %s",
			statusText(r.Status, r.Weak),
			r.Epsilon,
			r.Delta,
			accounting.RoundedUp(r.NoiseMultiplier, 6),
		)
		printWeak(t, r.Weak)
		t.row("protects\t%s%s", r.Protects, oneOf(r.Protected))
		r.Unused = stages.WithFields(r.Unused)
		printWorse(t, r.Standing, "privacy.cpu_time or privacy.samples")
	}
	if r.Warning != "" {
		t.row("warning\t%s", r.Warning)
	}
	t.Flush()
	if dry {
		printEstimate(w, r.Stages)
		return
	}
	for _, s := range r.Stages {
		files := ""
		if s.Files > 0 {
			files = "\t" + plural(s.Files, "file")
		}
		t.row("%s\t%s\t%.1f s\t%s%s", s.Stage, s.State, s.Seconds, s.Path, files)
	}
	if r.Seconds > 0 {
		t.row("in all\t\t%.1f s", r.Seconds)
	}
	if slices.ContainsFunc(r.Stages, func(s pipelines.StageRun) bool { return s.Stage == "noise" }) {
		t.Flush()
		fmt.Fprintf(w, "next  minsep inspect %s\n", r.Out)
	}
}

// printEstimate prints a dry run's estimates of the stages: rows, files, bytes.
func printEstimate(w io.Writer, stages []pipelines.StageRun) {
	t := newTable(w)
	t.row("\nexpected\tstate\trows\tfiles\tbytes")
	size := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return words.Grouped(n)
	}
	for _, s := range stages {
		e := s.Estimate
		t.row("%s\t%s\t%s\t%d\t%s", s.Stage, s.State, size(e.Rows), e.Files, size(e.Bytes))
	}
	t.row("")
	for _, s := range stages {
		if most := s.Estimate.SuggestedMaxBatchSize; most > 0 {
			t.row(
				"a maximum batch size (scheme.max_batch_size) of %s or more adds at most %g %% to delta\n",
				words.Grouped(int64(most)),
				100*accounting.SuggestedShare,
			)
		}
		if s.Estimate.Outlook != nil {
			t.row("account\tof (epsilon, delta)-DP by samples")
			printOutlook(t, *s.Estimate.Outlook)
		} else if s.Stage == "account" && s.Estimate.Sampled && s.State != pipelines.StageSkipped {
			t.row("account: whether the budget is enough depends on the data: minsep account --dry-run says, after minsep run --until strategy")
		}
	}
	t.Flush()
}
