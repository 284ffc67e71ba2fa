package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/graphio"
	"minsep/internal/ondisk"
	"minsep/internal/pipelines"
	"minsep/internal/words"
)

// addGraphFlags adds the flags that name the files of a graph and describe their format.
func addGraphFlags(f *pflag.FlagSet, paths *[]string, read *graphio.Options) {
	f.StringArrayVar(paths, "graph", nil, "file, folder or pattern of files with an example–owner graph; may be repeated")
	addFlags(f, read)
}

func boundCommand(a *app) *cobra.Command {
	var stage pipelines.Bound
	c := &cobra.Command{
		Use:   "bound --graph PATH (--max-per-owner K | --pools N) --key FILE --out DIR",
		Short: "Bound how many examples each owner contributes",
		Long: `bound reads an example–owner graph and keeps a subset of its examples, so that no owner has more than K of them.
It goes through the examples, those with the fewest owners first, and keeps an example if each of its owners has fewer
than K kept examples so far. With --pools N it makes N subsets (pools) for --scheme rotation: an owner has at most one
example in a pool, and each pool takes the examples first that earlier pools used least. The result is the same for any
number of workers. The certificate's claim takes the graph to be public; docs/accounting.md states the claim.

The graph is a list of edges (CSV, TSV or Parquet with the columns example_id and owner_id); or a list of examples with
their owners (Parquet with a list column owners); or a list of examples only, each its own owner. CSV and TSV may be
compressed with gzip or zstd.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// In a pool an owner has one example: rotation is accounted for with no other number, which the
			// stage refuses where it is given.
			if cmd.Flags().Changed("pools") && !cmd.Flags().Changed("max-per-owner") {
				stage.MaxExamplesPerOwner = 1
			}
			return runStage(a, cmd, stage.Run, printBounded)
		},
	}
	a.addStageFlags(c)
	a.addJobFlags(c, "the same command begins again")
	f := c.Flags()
	addGraphFlags(f, &stage.Graph, &stage.Read)
	stage.EdgesInMemory = ondisk.DefaultInMemory
	addFlags(f, &stage)
	f.TextVar(&stage.Order, "order", stage.Order, "`order` of the examples: fewest-owners first, which keeps more of them, or random")
	return c
}

// copies formats a number of copies; plural would make "copys" of it.
func copies(n int64) string {
	if n == 1 {
		return "1 copy"
	}
	return words.Grouped(n) + " copies"
}

func printBounded(w io.Writer, b pipelines.BoundResult) {
	s := b.Summary
	t := newTable(w)
	if b.RunID == "" {
		t.row("dry run\t%s\tnothing is written", b.Out)
		t.row(
			"graph\t%s, %s\texamples are %s, owners %s",
			plural(b.Input.Files, "file"),
			plural(b.Input.Bytes, "byte"),
			b.Input.ExampleType,
			b.Input.OwnerType,
		)
		t.Flush()
		return
	}
	t.row("run\t%s\t%s", b.RunID, b.Out)
	t.row(
		"graph\t%s, %s, %s\t%s merged",
		plural(s.Edges, "edge"),
		plural(s.Examples, "example"),
		plural(s.Owners, "owner"),
		plural(s.DuplicateEdges, "equal edge"),
	)
	t.row(
		"kept\t%s, %s, %s",
		plural(s.Kept, "example"),
		copies(s.KeptCopies),
		plural(s.KeptEdges, "edge"),
	)
	if c := s.Coverage; c != nil {
		t.row(
			"pools\t%d of %s\tbefore they were cut to one size: %s to %s",
			c.Pools,
			plural(c.Size, "example"),
			words.Grouped(slices.Min(c.BeforeCut)),
			words.Grouped(slices.Max(c.BeforeCut)),
		)
		t.row(
			"distinct\t%s in the first pool, %s in all\tthe most used one in %s",
			plural(c.Distinct[0], "example"),
			words.Grouped(s.Kept),
			plural(c.Most(), "pool"),
		)
		t.row(
			"in no pool\t%s: an owner was full each time\t%s: cut",
			words.Grouped(s.DroppedOwnerFull),
			words.Grouped(c.DroppedCut),
		)
	} else {
		t.row(
			"dropped\t%s: an owner was full\t%s: neighbourhood too large",
			words.Grouped(s.DroppedOwnerFull),
			words.Grouped(s.DroppedNeighborhood),
		)
	}
	t.row("without a kept example\t%s", plural(s.KeptPerOwner.Of(0), "owner"))
	if most := s.Neighborhoods.Most(); most > 0 {
		t.row("largest neighbourhood\t%d", most)
	}
	t.Flush()
}
