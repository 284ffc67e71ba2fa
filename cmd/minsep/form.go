package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/words"
	"minsep/sampling"
)

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
			return runStage(a, cmd, stage.Run, printFormed)
		},
	}
	a.addStageFlags(c)
	a.addJobFlags(c, "the same command begins again")
	f := c.Flags()
	stage.Scheme = sampling.DefaultScheme
	addFlags(f, &stage)
	return c
}

func printFormed(w io.Writer, f stages.FormResult) {
	scheme, _ := json.Marshal(f.Scheme)
	if f.Scheme.Law != nil { // which may be long
		scheme = []byte("law " + f.Scheme.Law.String())
	}
	t := newTable(w)
	if f.RunID == "" {
		t.row("dry run\t%s\tnothing is written", f.Out)
	} else {
		t.row("run\t%s\t%s", f.RunID, f.Out)
	}
	t.row("examples\t%s", words.Grouped(f.Examples))
	if f.Copies != f.Examples {
		t.row("copies\t%s", words.Grouped(f.Copies))
	}
	if f.Owners > 0 {
		t.row("owners\t%s", words.Grouped(f.Owners))
	}
	if f.Pools > 0 {
		t.row("pools\t%d, of %s each", f.Pools, plural(f.PoolExamples, "example"))
	}
	t.row("scheme\t%s", scheme)
	t.row("expected batch size\t%s", batchSize(f.ExpectedBatchSize, f.Owners, f.ExpectedExamples))
	if size := f.BatchSize; size > 0 {
		steps := f.Scheme.Scheme().NumSteps()
		t.row(
			"padded\tto %s a batch: %s in %s",
			plural(size, "row"),
			plural(int64(size)*int64(steps), "row"),
			plural(steps, "step"),
		)
	}
	t.row("shards\t%d", f.Shards)
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
