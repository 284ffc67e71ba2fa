package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"minsep/internal/param"
	"minsep/pipelines"
	"minsep/stages"
)

func init() { stageCommands["materialize"] = (*app).materializeCommand }

func (a *app) materializeCommand() *cobra.Command {
	var stage pipelines.Materialize
	c := &cobra.Command{
		Use:   "materialize --run DIR --examples FILES --key FILE",
		Short: "Write the examples themselves in the order of the steps",
		Long: `materialize joins your examples with the batches of a run directory, and writes them to its folder materialized as
Parquet files, each of a range of steps: for trainers that read streams, and cannot seek a row.

Each entry has the columns step, slot (its place in the step, from 0), row (of the bounded table), owner where owners take
part, and those of your files. Within a step the order is random, and owners' examples are together. A step in which nobody
takes part has no entry, and is a step all the same: the trainer adds its noise. With --pad N, every step has a multiple of N entries, at
least N; entries of padding have row -1 and nulls.

Every example of the bounded table must be in the files once, even if no batch has it. Other rows are left out. With
--by-name, an example is a file of its own, such as 1234.jpg, and entries have the columns file and bytes.

The files are as secret as the batches: only you can read them. A stopped or killed command resumes when it is repeated.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.options()
			if err != nil {
				return err
			}
			stop := a.watch("materialize")
			result, err := stage.Run(cmd.Context(), o)
			stop()
			if err != nil {
				return err
			}
			return a.print(result, func(w io.Writer) { printMaterialized(w, result) })
		},
	}
	// Not addStageFlags: the directory is an input too, so the flag is --run, and the run id is its
	// own.
	a.addJobFlags(c, "finished work is kept; the same command goes on from there")
	f := c.Flags()
	f.StringVar(&a.out, "run", "", "run directory with batches; the examples are written to its folder materialized")
	f.StringVar(&a.key, "key", "", "file of the root key that the batches were formed with")
	f.BoolVar(&a.overwrite, "overwrite", false, "replace a finished result")
	f.BoolVar(&a.dryRun, "dry-run", false, "check everything but the ids, print what would be done, write nothing")
	f.StringSliceVar(&stage.Examples, "examples", nil, "Parquet files with the examples: files, folders or patterns; may be repeated, or name several with commas")
	f.BoolVar(&stage.ByName, "by-name", false, "--examples names folders: each file in them is an example, and its name without the ending is the id")
	f.StringVar(&stage.IDColumn, "id-column", "", "column of the example ids (default "+stages.DefaultIDColumn+")")
	f.IntVar(&stage.Pad, "pad", 0, "fill every step up to a multiple of N entries, and to N at least")
	f.IntVar(&stage.Shards, "shards", 0, "number of files (default: by the expected size); does not change the rows")
	return c
}

func printMaterialized(w io.Writer, m pipelines.MaterializeResult) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "run\t%s\t%s\n", m.RunID, m.Out)
	var columns []string
	for _, name := range m.Columns {
		// Names of columns come from the user's files.
		columns = append(columns, param.Printable(name))
	}
	fmt.Fprintf(t, "data\t%s in %s, columns %s\n", plural(m.Rows, "row"), plural(m.Files, "file"), strings.Join(columns, ", "))
	fmt.Fprintf(t, "entries\t%.6g expected, in %s\n", m.Entries, plural(m.Steps, "step"))
	if m.Pad > 0 {
		fmt.Fprintf(t, "padding\tto a multiple of %d in every step\n", m.Pad)
	}
	fmt.Fprintf(t, "shards\t%d\t%s expected before compression\n", m.Shards, plural(m.Bytes, "byte"))
	t.Flush()
}
