package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"minsep/internal/leave"
	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/mechanism"
)

func strategyCommand(a *app) *cobra.Command {
	var kinds, files []string
	var params mechanism.Params
	c := &cobra.Command{
		Use:   "strategy --kind K[,K…] --steps N [--bands W] [--min-sep B] [--out FILE]",
		Short: "Make strategies that correlate noise, and compare them",
		Long: `strategy makes the strategy of a kind that has the least error for a workload, and prints its properties at noise
multiplier 1. For several kinds, and for strategy files, it prints a table. If a parameter of a kind is not given, its value
is chosen for the least product of error and sensitivity. If an optimisation does not converge, the command fails and writes
nothing.

Kinds (all stands for every kind that takes no --column):
` + familiesHelp() + `

The sensitivity assumes that an example takes part at most --max-participations times, at least --min-sep steps apart. It
counts no amplification by sampling.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(kinds) == 0 && len(files) > 0 {
				if err := withoutKind(cmd); err != nil {
					return err
				}
			}
			usualMomentum(cmd, &params)
			if len(kinds) == 1 && kinds[0] == "all" {
				kinds = mechanism.Kinds(func(f mechanism.Family) bool { return !f.TakesColumn })
			}
			return compareStrategies(a, cmd.Context(), kinds, files, params)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&kinds, "kind", nil, "kind of strategy; may be repeated, or name several with commas")
	f.StringArrayVar(&files, "strategy", nil, "also show the properties of this strategy file; may be repeated")
	addFlags(f, &params)
	f.StringVar(&a.out, "out", "", "strategy file to write, which minsep noise and minsep account read")
	return c
}

// familiesHelp lists the strategy families for a help text.
func familiesHelp() string {
	var b strings.Builder
	t := newTable(&b)
	for _, f := range mechanism.Families() {
		t.row("  %s\t%s", f.Kind, f.Help)
	}
	t.Flush()
	return strings.TrimRight(b.String(), "\n")
}

// withoutKind refuses the flags that only make a strategy if --kind is missing: a strategy file has
// its own parameters.
func withoutKind(cmd *cobra.Command) error {
	c := param.Checker{}
	for _, name := range []string{
		"bands", "buffers", "arity", "column", "stamps", "normalized", "objective", "independent-noise", "lambda", "gamma", "offset",
	} {
		c.Require(!cmd.Flags().Changed(name), name, nil, "is for a strategy that is made: give --kind as well")
	}
	return c.Err()
}

// strategyFigures is the JSON output for one strategy.
type strategyFigures struct {
	mechanism.Figures
	Steps         int                     `json:"steps"`
	File          string                  `json:"file,omitempty"` // the file it was read from
	Parameter     map[string]float64      `json:"parameter,omitempty"`
	NonNegative   bool                    `json:"non_negative"` // required for the accounting of random participations
	Participation mechanism.Participation `json:"participation"`
	Out           string                  `json:"out,omitempty"`
	Strategy      *mechanism.Strategy     `json:"strategy,omitempty"` // for a single strategy that is not written to a file
}

// compareStrategies makes the strategies of kinds, reads the given files, and shows them or writes one to
// --out. If some fail, the others are shown all the same.
func compareStrategies(a *app, ctx context.Context, kinds, files []string, params mechanism.Params) error {
	read, err := readStrategies(ctx, files, &params)
	if err != nil {
		return err
	}
	c := param.Checker{}
	c.Require(len(kinds)+len(files) > 0, "kind", "[]", "must be given")
	c.Require(a.out == "" || len(kinds) == 1 && len(files) == 0, "out", a.out, "takes exactly one kind")
	for _, kind := range kinds {
		c.Add(params.Among(kinds, kind).Validate())
	}
	c.Add(stages.FindScheduleFile(ctx, params))
	if err := c.Err(); err != nil {
		return err
	}
	// Read once for all kinds: they are compared on the same workload.
	rates, err := stages.ReadScheduleFile(ctx, params)
	if err != nil {
		return err
	}
	problem, err := params.Problem(rates)
	if err != nil {
		return err
	}
	if err := mayWriteFile(a); err != nil {
		return err
	}
	var all []strategyFigures
	var faults []error
	show := func(name, file string, s *mechanism.Strategy, err error) {
		var f mechanism.Figures
		if err == nil {
			f, err = problem.Figures(s)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("strategy %s: %w", name, err))
			return
		}
		one := strategyFigures{
			Figures:       f,
			Steps:         s.Steps,
			File:          file,
			NonNegative:   s.NonNegative(),
			Participation: problem.Participation,
			Strategy:      s,
		}
		if p, value, ok := mechanism.FamilyParameter(s); ok {
			one.Parameter = map[string]float64{p.Name: value}
		}
		all = append(all, one)
	}
	for i, s := range read {
		show(files[i], files[i], s, nil)
	}
	for _, kind := range kinds {
		s, err := leave.Behind(ctx, func() (*mechanism.Strategy, error) {
			return params.Among(kinds, kind).Make(ctx, rates)
		})
		// A stopped command prints no table of a part of the kinds.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		show(kind, "", s, err)
	}
	// All or nothing: a strategy with a fault is not left for account or noise to find.
	if a.out != "" && len(faults) == 0 {
		faults = append(faults, writeStrategy(a.out, all[0].Strategy))
		all[0].Strategy, all[0].Out = nil, a.out
	}
	return errors.Join(printStrategies(a, all), errors.Join(faults...))
}

// readStrategies reads strategy files. All must have params.Steps steps; if that is 0, the first
// file sets it.
func readStrategies(ctx context.Context, files []string, params *mechanism.Params) (read []*mechanism.Strategy, err error) {
	for _, path := range files {
		s, err := stages.ReadStrategyFile(ctx, path)
		if err != nil {
			return nil, err
		}
		params.Steps = cmp.Or(params.Steps, s.Steps)
		if s.Steps != params.Steps {
			return nil, param.Fault("strategy", path,
				"has %s, and must have %d, as --steps or the first strategy: others cannot be compared", words.Count(s.Steps, "step"), params.Steps)
		}
		read = append(read, s)
	}
	return read, nil
}

// mayWriteFile refuses an --out that cannot be written, before time is spent on its content.
func mayWriteFile(a *app) error {
	if a.out == "" {
		return nil
	}
	info, err := store.Stat(context.Background(), a.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mayHold("out", a.out)
	case err != nil:
		return err
	case info.Dir:
		return param.Fault("out", a.out, "must be a file, not a folder")
	}
	return param.Fault("out", a.out, "is there already: nothing is overwritten")
}

// mayHold refuses a path for a new file if its folder does not exist.
func mayHold(name, path string) error {
	dir := store.Dir(path)
	err := store.CheckFolder(context.Background(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return param.Fault(name, path, "is in a folder that does not exist: make it first, by mkdir -p %s", shellWord(dir))
	}
	return err
}

func writeStrategy(path string, s *mechanism.Strategy) error {
	return store.Write(context.Background(), path, store.Options{Mode: manifest.PublicFile, New: true}, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) })
}

// printStrategies shows one strategy in full, several as a table.
func printStrategies(a *app, all []strategyFigures) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return a.print(all[0], func(w io.Writer) { printStrategy(w, all[0]) })
	}
	var table []mechanism.Figures
	for i, f := range all {
		if f.File != "" {
			f.Figures.Kind = f.File
		}
		all[i].Strategy = nil
		table = append(table, f.Figures)
	}
	return a.print(all, func(w io.Writer) { mechanism.WriteTable(w, table) })
}

func printStrategy(w io.Writer, s strategyFigures) {
	t := newTable(w)
	t.row("strategy\t%s, %s, %s", s.Kind, plural(s.Steps, "step"), plural(s.Bands, "band"))
	for name, value := range s.Parameter {
		t.row("%s\t%.9g", name, value)
	}
	t.row("RMSE\t%.9g\tat noise multiplier 1", s.RMSE)
	t.row("MaxSE\t%.9g", s.MaxSE)
	exact := "exact"
	if !s.Sensitivity.Exact {
		exact = "an upper bound"
	}
	t.row("sensitivity\t%.9g\t%s, by %s", s.Sensitivity.Value, exact, s.Sensitivity.Method)
	t.row("RMSE·sensitivity\t%.9g\twithout amplification", s.RMSE*s.Sensitivity.Value)
	t.row("noise of a step\t%.9g\tat noise multiplier 1", s.StepNoise)
	t.row(
		"noise\t%s of state, %s and %s for each step and coordinate",
		plural(s.State, "number"),
		plural(s.Normals, "normal"),
		plural(s.MultiplyAdds, "multiply-add"),
	)
	if !s.NonNegative {
		t.row(
			"entries\tsome are negative, which the accounting of random participations does not cover",
		)
	}
	if s.Out != "" {
		t.row("written\t%s", s.Out)
	}
	t.Flush()
}

// plural formats a number of things: 1 row, 2 rows.
func plural[N ~int | ~int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return words.Grouped(int64(n)) + " " + thing + "s"
}
