package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/mechanism"
)

func init() { stageCommands["strategy"] = strategyCommand }

func strategyCommand(a *app) *cobra.Command {
	var kinds, files []string
	var params mechanism.Params
	var normalized bool
	parameters := map[string]*float64{}
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
			// A parameter that was not given is optimized, so 0 must not stand for it.
			for name, value := range parameters {
				if cmd.Flags().Changed(name) {
					params.SetParameter(name, *value)
				}
			}
			if len(kinds) == 0 && len(files) > 0 {
				a.zeros = errors.Join(a.zeros, withoutKind(cmd))
			}
			if cmd.Flags().Changed("normalized") {
				params.Normalized = &normalized
			}
			usualMomentum(cmd, &params)
			if len(kinds) == 1 && kinds[0] == "all" {
				kinds = mechanism.Kinds(func(f mechanism.Family) bool { return !f.TakesColumn })
			}
			err := compareStrategies(a, cmd.Context(), kinds, files, params)
			if errors.Is(err, mechanism.ErrTooLarge) {
				err = usageError{err}
			}
			return err
		},
	}
	f := c.Flags()
	f.StringSliceVar(&kinds, "kind", nil, "kind of strategy; may be repeated, or name several with commas")
	if err := c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(append(mechanism.Kinds(anyFamily), "all"), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // no such flag
	}
	f.StringArrayVar(&files, "strategy", nil, "also show the properties of this strategy file; may be repeated")
	f.IntVar(&params.Steps, "steps", 0, "number of training steps")
	f.IntVar(&params.Bands, "bands", 0, "number of bands of the strategy, or of its inverse for the inverse kinds; not for "+words.List(mechanism.Kinds(func(f mechanism.Family) bool { return f.Size != mechanism.BandsSize })))
	f.IntVar(&params.MinSep, "min-sep", 0, "least number of steps from one participation to the next (default: each example takes part once)")
	f.IntVar(&params.MaxParticipations, "max-participations", 0, "most participations of an example (default: as many as --min-sep lets fit)")
	f.BoolVar(&params.Phases, "phases", false, "assume that examples take part every --min-sep steps exactly, as in epochs of a fixed order")
	// The same flags as plan has, so that a plan's workload can be typed here.
	trainingFlags(f, &params)
	f.StringVar(&params.Objective, "objective", mechanism.MeanError, "the error to minimise: mean or max, over the steps")
	for _, p := range mechanism.Parameters() {
		parameters[p.Name] = f.Float64(p.Name, 0, parameterHelp(p))
	}
	f.Float64Var(&params.IndependentNoise, "independent-noise", 0, "for "+mechanism.KindAmplified+": noise multiplier that independent noise needs under the same sampling (default 1)")
	f.BoolVar(&normalized, "normalized", false, "divide each column of the strategy by its norm (default: for "+words.List(mechanism.Kinds(func(f mechanism.Family) bool { return f.Normalized }))+" only)")
	f.IntVar(&params.Buffers, "buffers", 0, "most buffers of "+mechanism.KindBLT+" (default 4)")
	f.IntVar(&params.Arity, "arity", 0, "arity of "+words.List(mechanism.Kinds(func(f mechanism.Family) bool { return f.Size == mechanism.AritySize }))+": the number of children of a node (default 2)")
	f.Float64SliceVar(&params.Column, "column", nil, "first column of toeplitz: numbers with commas between them")
	f.IntVar(&params.Stamps, "stamps", 0, "make the strategy for one N-th of the steps, and repeat it N times")
	f.StringVar(&a.out, "out", "", "strategy file to write, which minsep noise and minsep account read")
	f.BoolVar(&a.overwrite, "overwrite", false, "replace the file")
	f.BoolVar(&a.dryRun, "dry-run", false, "check everything, make and write nothing")
	return c
}

func anyFamily(mechanism.Family) bool { return true }

// familiesHelp lists the strategy families for a help text.
func familiesHelp() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range mechanism.Families() {
		fmt.Fprintf(t, "  %s\t%s\n", f.Kind, f.Help)
	}
	t.Flush()
	return strings.TrimRight(b.String(), "\n")
}

// parameterHelp returns the help of the flag that sets a parameter of one or more families.
func parameterHelp(p mechanism.Parameter) string {
	within := ""
	if !math.IsInf(p.High, 1) {
		within = fmt.Sprintf(", from %v to %v", p.Low, p.High)
	}
	return fmt.Sprintf(
		"%s of %s%s (default: the best)",
		p.Symbol,
		words.List(mechanism.Kinds(func(f mechanism.Family) bool { return f.Parameter != nil && f.Parameter.Name == p.Name })),
		within,
	)
}

// withoutKind refuses the flags that only make a strategy if --kind is missing: a strategy file has
// its own parameters.
func withoutKind(cmd *cobra.Command) error {
	c := param.Checker{}
	names := []string{
		"bands",
		"buffers",
		"arity",
		"column",
		"stamps",
		"normalized",
		"objective",
		"independent-noise",
	}
	for _, p := range mechanism.Parameters() {
		names = append(names, p.Name)
	}
	for _, name := range names {
		flag := cmd.Flags().Lookup(name)
		c.Require(!flag.Changed, name, flag.Value, "is for a strategy that is made: give --kind as well")
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
	c.Add(a.zeros)
	c.Require(len(kinds)+len(files) > 0, "kind", "[]", "must be given")
	c.Require(a.out == "" || len(kinds) == 1 && len(files) == 0, "out", a.out, "takes exactly one kind")
	for _, kind := range kinds {
		c.Add(params.Among(kinds, kind).Validate())
	}
	c.Add(stages.FindWorkloadFile(ctx, params))
	if err := c.Err(); err != nil {
		return err
	}
	// Read once for all kinds: they are compared on the same workload.
	workload, err := stages.ReadWorkloadFile(ctx, params)
	if err != nil {
		return err
	}
	problem, err := params.Problem(workload)
	if err != nil {
		return err
	}
	if err := mayWriteFile(a); err != nil || a.dryRun {
		return err
	}
	var all []strategyFigures
	var faults []error
	show := func(name string, s *mechanism.Strategy, err error) {
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
		show(files[i], s, nil)
		if len(all) > 0 {
			all[len(all)-1].File = files[i]
		}
	}
	for _, kind := range kinds {
		s, err := params.Among(kinds, kind).Make(ctx, workload)
		// A stopped command prints no table of a part of the kinds.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		show(kind, s, err)
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
func readStrategies(
	ctx context.Context,
	files []string,
	params *mechanism.Params,
) (read []*mechanism.Strategy, err error) {
	given := params.Steps != 0
	for _, path := range files {
		s, err := stages.ReadStrategyFile(ctx, path)
		if err != nil {
			return nil, err
		}
		if params.Steps == 0 {
			params.Steps = s.Steps
		}
		switch {
		case s.Steps == params.Steps:
		case !given:
			return nil, &param.Error{
				Param: "strategy",
				Value: path,
				Rule: fmt.Sprintf(
					"has %s, %s has %d: strategies that are compared must have the same number of steps",
					words.Count(s.Steps, "step"),
					files[0],
					params.Steps,
				),
			}
		default:
			return nil, &param.Error{
				Param: "steps",
				Value: params.Steps,
				Rule:  fmt.Sprintf("must be %d, as the strategy %s has", s.Steps, path),
			}
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
		return &param.Error{Param: "out", Value: a.out, Rule: "must be a file, not a folder"}
	case !a.overwrite:
		return &param.Error{
			Param: "out",
			Value: a.out,
			Rule:  "is there already: nothing is overwritten without --overwrite",
		}
	}
	return nil
}

// mayHold refuses a path for a new file if its folder does not exist or is not writable by this
// user.
func mayHold(name, path string) error {
	dir := store.Dir(path)
	refused := func(rule string) error {
		return &param.Error{Param: name, Value: path, Rule: rule}
	}
	err := store.CheckFolder(context.Background(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return refused("is in a folder that does not exist: make it first, by mkdir -p " + shellWord(dir))
	}
	if err != nil || store.Shared(dir) {
		return err
	}
	probe, err := os.CreateTemp(strings.TrimPrefix(dir, "file://"), ".minsep-probe-*")
	if errors.Is(err, fs.ErrPermission) {
		return refused("is in a folder in which this user may not write: name another one")
	}
	if err != nil {
		return nil // the write itself reports the fault
	}
	probe.Close()
	return os.Remove(probe.Name())
}

func writeStrategy(path string, s *mechanism.Strategy) error {
	_, err := manifest.WriteFile(store.Dir(path), store.Base(path), manifest.PublicFile, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(s)
	})
	return err
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
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "strategy\t%s, %s, %s\n", s.Kind, plural(s.Steps, "step"), plural(s.Bands, "band"))
	for name, value := range s.Parameter {
		fmt.Fprintf(t, "%s\t%.9g\n", name, value)
	}
	fmt.Fprintf(t, "RMSE\t%.9g\tat noise multiplier 1\n", s.RMSE)
	fmt.Fprintf(t, "MaxSE\t%.9g\n", s.MaxSE)
	exact := "exact"
	if !s.Sensitivity.Exact {
		exact = "an upper bound"
	}
	fmt.Fprintf(t, "sensitivity\t%.9g\t%s, by %s\n", s.Sensitivity.Value, exact, s.Sensitivity.Method)
	fmt.Fprintf(t, "RMSE·sensitivity\t%.9g\twithout amplification\n", s.RMSE*s.Sensitivity.Value)
	fmt.Fprintf(t, "noise of a step\t%.9g\tat noise multiplier 1\n", s.StepNoise)
	fmt.Fprintf(
		t,
		"noise\t%s of state, %s and %s for each step and coordinate\n",
		plural(s.State, "number"),
		plural(s.Normals, "normal"),
		plural(s.MultiplyAdds, "multiply-add"),
	)
	if !s.NonNegative {
		fmt.Fprintf(
			t,
			"entries\tsome are negative, which the accounting of random participations does not cover\n",
		)
	}
	if s.Out != "" {
		fmt.Fprintf(t, "written\t%s\n", s.Out)
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
