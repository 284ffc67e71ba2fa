package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/param"
	"minsep/internal/pipelines"
	"minsep/privacy"
)

func statisticsCommand(a *app) *cobra.Command {
	var s pipelines.Statistics
	c := &cobra.Command{
		Use:   "statistics RUN --values FILE --name NAME --epsilon E [--counts C=A,B] [--mean C=L:U] [--variance C=L:U] [--quantiles C=L:U:R,...]",
		Short: "Release private statistics of the examples of a bounded table",
		Long: `statistics releases counts by class, means, variances and quantiles of the examples that minsep bound kept, with owners
as the unit of privacy: class weights, normalisation, or a value to clip a feature to. The files of --values (CSV, TSV) have
a row for each example, with its id; examples that are not in the table count nowhere, an empty cell neither.

Values are clamped to bounds L:U that you give, and classes are counted that you name: neither may be taken from the data.
--epsilon is for all statistics of the command together, in equal parts. What was released is in RUN/statistics/NAME.json;
it costs what its claim says, and minsep compose adds that to the training's. A name is released once.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.out = args[0]
			return runStage(a, cmd, s.Run, printRelease)
		},
	}
	a.addJobFlags(c, "the same command begins again, if nothing was released")
	f := c.Flags()
	f.StringArrayVar(&s.Values, "values", nil, "CSV or TSV file with the values of the examples; may be repeated")
	s.IDColumn = "example_id"
	addFlags(f, &s)
	addFlags(f, &s.Ask)
	of := &s.Ask.Statistics
	f.Var(statisticsFlag{of, privacy.Counts}, "counts", "count the examples in each named class of a column: label=cat,dog; may be repeated")
	f.Var(statisticsFlag{of, privacy.Mean}, "mean", "mean of a column, of values clamped to bounds: age=0:120; may be repeated")
	f.Var(statisticsFlag{of, privacy.Variance}, "variance", "variance of a column, of values clamped to bounds: age=0:120; may be repeated")
	f.Var(statisticsFlag{of, privacy.Quantiles}, "quantiles", "quantiles of a column, of values clamped to bounds: size=0:1e6:0.5,0.99; may be repeated")
	return c
}

// statisticsFlag is a flag that asks for a statistic of one kind.
type statisticsFlag struct {
	to   *[]privacy.Statistic
	kind string
}

var _ pflag.Value = statisticsFlag{}

func (statisticsFlag) String() string { return "" }
func (statisticsFlag) Type() string   { return "column=what" }

// Set appends the statistic.
func (f statisticsFlag) Set(text string) error {
	column, what, found := strings.Cut(text, "=")
	s := privacy.Statistic{Column: column, Kind: f.kind}
	if !found {
		return param.Fault(f.kind, text, "must be a column, =, and what is asked of it: --counts label=cat,dog, --mean or --variance age=0:120, --quantiles size=0:1e6:0.5,0.99")
	}
	if f.kind == privacy.Counts {
		s.Classes = strings.Split(what, ",")
		*f.to = append(*f.to, s)
		return nil
	}
	parts := strings.Split(what, ":")
	if (f.kind == privacy.Quantiles) != (len(parts) == 3) || len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("must have a lower and an upper bound, and for quantiles ranks: %s=0:100", column)
	}
	numbers := parts[:2:2]
	if len(parts) == 3 {
		numbers = append(numbers, strings.Split(parts[2], ",")...)
	}
	for i, number := range numbers {
		x, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil:
			return fmt.Errorf("%q is no number", number)
		case i == 0:
			s.Lower = x
		case i == 1:
			s.Upper = x
		default:
			s.Ranks = append(s.Ranks, x)
		}
	}
	*f.to = append(*f.to, s)
	return nil
}

func printRelease(w io.Writer, r privacy.Release) {
	for i, s := range r.Statistics.Statistics {
		for j, result := range r.Results[i] {
			of := s.Kind + " of " + s.Column
			switch s.Kind {
			case privacy.Counts:
				of += " " + s.Classes[j]
			case privacy.Quantiles:
				of += fmt.Sprintf(" at %g", s.Ranks[j])
			}
			fmt.Fprintf(w, "%s: %.6g\n", of, result)
		}
	}
	fmt.Fprintf(w, "released: %s\n", r.Claim())
}
