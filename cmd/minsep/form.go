package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/words"
)

func init() { stageCommands["form"] = formCommand }

func formCommand(a *app) *cobra.Command {
	var stage pipelines.Form
	c := &cobra.Command{
		Use:   "form (--bounded DIR | --examples N) --scheme S --steps N --min-sep B (--batch-size X | --prob P) --key FILE --out DIR",
		Short: "Form the batches of a training run",
		Long: `form draws which examples take part in which step. It writes the batches as files that NumPy can memory-map as they are.

` + schemesHelp() + `
Batches and their sizes are secret. Only you can read the folder batches of the run directory.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := a.options()
			// Before the work begins: Ctrl-C then costs nothing.
			warnOfHours(a, cmd, stages.Form(stage))
			stop := a.watch("form")
			result, err := stage.Run(cmd.Context(), o)
			stop()
			if err != nil {
				return err
			}
			return a.print(result, func(w io.Writer) { printFormed(w, result) })
		},
	}
	a.addStageFlags(c)
	a.addJobFlags(c, "the same command begins again")
	f := c.Flags()
	addFlags(f, &stage)
	addSchemeFlags(f, &stage.Params)
	return c
}

// warnOfHours warns before a job that takes hours: --examples may have a digit too many. Parameters
// that do not validate are left to the stage, which refuses them.
func warnOfHours(a *app, cmd *cobra.Command, f stages.Form) {
	if f.Examples == 0 || f.Validate() != nil {
		return
	}
	formed, _, err := f.Planned(cmd.Context())
	if err != nil || formed.CPU() < time.Hour.Seconds() {
		return
	}
	a.say(
		a.stderr,
		slog.LevelWarn,
		fmt.Sprintf(
			"warning: --examples %d: expected to take %s of one processor, and %s of batches",
			f.Examples,
			budgetTime(formed.CPU()),
			plural(formed.Bytes(), "byte"),
		),
	)
}

func printFormed(w io.Writer, f stages.FormResult) {
	scheme, _ := json.Marshal(f.Scheme)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if f.RunID == "" {
		fmt.Fprintf(t, "dry run\t%s\tnothing is written\n", f.Out)
	} else {
		fmt.Fprintf(t, "run\t%s\t%s\n", f.RunID, f.Out)
	}
	fmt.Fprintf(t, "examples\t%s\n", words.Grouped(f.Examples))
	if f.Copies != f.Examples {
		fmt.Fprintf(t, "copies\t%s\n", words.Grouped(f.Copies))
	}
	if f.Owners > 0 {
		fmt.Fprintf(t, "owners\t%s\n", words.Grouped(f.Owners))
	}
	if f.Pools > 0 {
		fmt.Fprintf(t, "pools\t%d, of %s each\n", f.Pools, plural(f.PoolExamples, "example"))
	}
	fmt.Fprintf(t, "scheme\t%s\n", scheme)
	fmt.Fprintf(t, "expected batch size\t%s\n", batchSize(f.ExpectedBatchSize, f.Owners, f.ExpectedExamples))
	if size := f.PaddedBatchSize(); size > 0 {
		steps := f.Scheme.Scheme().NumSteps()
		fmt.Fprintf(
			t,
			"padded\tto %s a batch: %s in %s\n",
			plural(size, "row"),
			plural(int64(size)*int64(steps), "row"),
			plural(steps, "step"),
		)
	}
	fmt.Fprintf(t, "shards\t%d\n", f.Shards)
	t.Flush()
}

// batchSize formats the expected size of a batch: in examples, or, if owners are sampled, in owners
// with their examples. owners is 0 if examples are sampled.
func batchSize(expected float64, owners int64, examples float64) string {
	if owners == 0 {
		return fmt.Sprintf("%.6g", expected)
	}
	return fmt.Sprintf("%.6g owners, with %.6g examples", expected, examples)
}
