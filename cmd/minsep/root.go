package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/graphio"
	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/pipelines"
	"minsep/internal/printable"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
)

// Exit codes, which scripts rely on.
const (
	exitOK          = 0
	exitFailure     = 1 // fault of the machine, a runner or this program
	exitUsage       = 2 // fault of the command line, a plan or the input
	exitNotVerified = 3 // a guarantee could not be verified
)

// helpWidth is the width of the text on flags in help, in columns.
const helpWidth = 100

// app is the state that all subcommands share: outputs and common flags.
type app struct {
	// stdout and stderr are for text, of any origin: they escape control characters, so that text
	// from files cannot control the terminal. Raw bytes and the command's own control characters go
	// to the writers beneath, bytes and terminal.
	stdout, stderr io.Writer
	args           []string  // the command line
	bytes          io.Writer // beneath stdout, unescaped
	terminal       io.Writer // beneath stderr, unescaped

	runner    string
	json      bool
	quiet     bool
	overwrite bool // of files: a strategy, a plan
	dryRun    bool
	key       string
	out       string
	zeros     error // faults of flags given as 0; reported with the other faults
	operation
}

// checkedWriter remembers the first error of a writer, so that a command with lost output does not
// exit with 0.
type checkedWriter struct {
	io.Writer
	fault error
}

func (w *checkedWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if w.fault == nil {
		w.fault = err
	}
	return n, err
}

// usageError marks an error as the user's: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &checkedWriter{Writer: stdout}
	a := &app{
		args:     args,
		bytes:    out,
		terminal: stderr,
		stdout:   printable.Writer(out),
		stderr:   printable.Writer(stderr),
	}
	// All below writes through the escaping writers. A stream of noise writes to out itself, so lost
	// output is noticed there too.
	stdout, stderr = a.stdout, a.stderr
	ctx, stop := a.onSignal(ctx, stderr)
	defer stop()
	defer a.removeTemp()
	root := a.command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if out.fault != nil && !errors.Is(err, out.fault) {
		err = errors.Join(err, fmt.Errorf("standard output: %w", out.fault))
	}
	if err == nil {
		return exitOK
	}
	// A stopped command says that it was stopped, whatever error its stage made of the cancelled
	// context: that error would look like a fault of the data or of the runner.
	var stopped stopError
	if errors.As(context.Cause(ctx), &stopped) {
		a.say(stderr, slog.LevelError, strings.TrimSuffix(stopped.Error()+": "+a.resumeHint, ": "))
		return stopped.code()
	}
	// A job that was only translated ends as an error inside, so that no stage reads files that the
	// job did not write. To the user it is a success.
	if errors.Is(err, pipelines.ErrTranslated) {
		a.print(map[string]bool{"translated": true}, func(w io.Writer) {
			fmt.Fprintln(w, "translated, not run: nothing was written; --log-level info shows the job")
		})
		return exitOK
	}
	text := message(cmd, err)
	if help := advice(err); help != "" {
		text += "\n" + help
	}
	// The code follows from the error, never from the text: scripts go by it, and texts change.
	code := exitCode(err)
	if a.asksJSON(args) && a.records == nil {
		a.printError(text, code)
		return code
	}
	a.say(stderr, slog.LevelError, text)
	return code
}

// asksJSON reports whether the user wants JSON, even if parsing failed before the flags were set.
func (a *app) asksJSON(args []string) bool {
	return a.json || slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// failure is the JSON form of an error.
type failure struct {
	Error    []string `json:"error"` // one fault a line
	ExitCode int      `json:"exit_code"`
}

// printError prints an error as JSON, on the last line of standard error. Standard output has the
// result, if there is one.
func (a *app) printError(text string, code int) {
	line, err := json.Marshal(failure{strings.Split(a.asGiven(text), "\n"), code})
	if err != nil {
		line = []byte(strconv.Quote(text)) // cannot happen: the value holds strings and a number only
	}
	fmt.Fprintln(a.stderr, string(line))
}

// exitCode returns the exit code of an error: 3 where a guarantee failed, 2 where the user can mend
// the cause by other words, paths or data, and 1 for all others, which a repetition may get past.
// Missing files and missing rights count as 2: the same command ends the same way. The first case
// wins, since the error of a failed guarantee may hold faults of parameters too.
func exitCode(err error) int {
	var usage usageError
	var bad *param.Error
	var fault *graphio.Fault
	switch {
	case errors.Is(err, inspect.ErrFailedCheck), unverified(err):
		return exitNotVerified
	case errors.As(err, &usage), errors.As(err, &bad), errors.As(err, &fault), errors.Is(err, pipelines.ErrInput),
		errors.Is(err, manifest.ErrExists), errors.Is(err, manifest.ErrInvalid), errors.Is(err, pipelines.ErrLocked), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EROFS),
		errors.Is(err, store.ErrNotRegular), errors.Is(err, store.ErrHollow), errors.Is(err, store.ErrNotText), errors.Is(err, syscall.ELOOP):
		return exitUsage
	}
	return exitFailure
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "minsep",
		Short: "Data stage of differentially private training with correlated noise",
		Long: `minsep prepares differentially private training with correlated noise. It bounds the contribution of each owner in an
example–owner graph, forms batches, finds and verifies the noise multiplier, and generates the noise.

Start with:  minsep keygen key
             minsep plan --graph edges.csv --max-per-owner 1 \
                 --steps 1000 --batch-size 128 --epsilon 8 --delta 1e-5 \
                 --coordinates 100000 --out plan.json
             minsep run plan.json
             minsep inspect run

Exit codes: 0 done; 1 a failure of the machine or of a runner, or --timeout; 2 a fault in the command line or the input;
3 a guarantee could not be verified; 130 and 143 stopped by SIGINT and SIGTERM; 134 ended by
Go's runtime, for example because memory ran out. After 1, 130, 134 and 143 the same command may be repeated as it is.`,
		Version:       versionText(),
		SilenceErrors: true,
		// Of cobra's suggestions for unknown commands, in changes of letters.
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		DisableAutoGenTag:          true,
		Args:                       cobra.NoArgs,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// The command that makes completions for shells works, and is left out of the help.
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(a.flagError)
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print the result as JSON")
	f.BoolVar(&a.quiet, "quiet", false, "print no progress and no summary")
	a.addLogFlags(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		// Not refused yet: a stage tells these faults with all of its own, see Options.Faults.
		a.zeros = refuseZeros(cmd)
		return a.makeLog(a.stderr)
	}
	addBeamFlags(f, &a.runner)
	// The order of the commands in the help is the order of the stages in a run.
	for _, s := range stages.All {
		if of := stageCommands[s.Name]; of != nil { // a stage without a command fails a test
			root.AddCommand(of(a))
		}
	}
	root.AddCommand(
		prepareCommand(a),
		keygenCommand(a),
		inspectCommand(a),
		reportCommand(a),
		planCommand(a),
		runCommand(a),
	)
	root.AddCommand(composeCommand(a), statisticsCommand(a), workerPoolCommand(a), manCommand())
	for _, c := range append(root.Commands(), root) {
		// These look at the flags that the constructors have defined, so they come last.
		wrapArgs(c)
		completeValues(c)
		acceptPowers(c)
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	return root
}

// flagError is the error of flags that cobra cannot parse, with the way out.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	if word := unknownCommand(cmd, a.args); word != "" {
		return noSuchCommand(cmd, word)
	}
	err = flagFault(err)
	if text := inPlanInstead(cmd, err); text != "" {
		return usageError{errors.New(text)}
	}
	if cmd.Name() == "keygen" && !errors.As(err, new(*param.Error)) {
		err = fmt.Errorf("%w: the file is an argument, as in minsep keygen key", err)
	}
	return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
}

// noSuchCommand is the error of a word that is no command, with the commands that may be meant.
func noSuchCommand(cmd *cobra.Command, word string) error {
	return usageError{fmt.Errorf("unknown command %q%s; see minsep --help", word, suggestions(cmd, word))}
}

// suggestions are the commands that may be meant by a word, as cobra finds them.
func suggestions(cmd *cobra.Command, word string) string {
	names := cmd.Root().SuggestionsFor(word)
	if len(names) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(names, " or ") + "?)"
}

// unknownCommand returns the first argument if it names no command; "" if it does, or is a flag.
func unknownCommand(cmd *cobra.Command, args []string) string {
	if cmd.HasParent() || len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return ""
	}
	return args[0]
}

// inPlanInstead answers a user who gave minsep run a flag that is a field of the plan: it names the
// field. It returns "" for other errors.
func inPlanInstead(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if cmd.Name() != "run" || !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	field := stages.FieldOf(name)
	if field == "" {
		return ""
	}
	text := fmt.Sprintf(
		"--%s stands in the plan, as %s: change it there and run the plan again, with another --out, or by --again NEW, which takes over what still holds",
		name,
		field,
	)
	if plan, _, err := cmd.Root().Find([]string{"plan"}); err == nil && plan.Flags().Lookup(name) != nil {
		text += fmt.Sprintf("; or write another plan, by minsep plan --%s with its other flags and --out", name)
	}
	return text
}

// wrapArgs makes a wrong number of arguments a usage error that names the command's arguments.
func wrapArgs(c *cobra.Command) {
	check := c.Args
	c.Args = func(cmd *cobra.Command, args []string) error {
		var bad *param.Error
		if slices.Contains(args, "") {
			return usageError{
				fmt.Errorf(
					"an argument is empty, as of a variable of the shell that is not set; see %s --help",
					cmd.CommandPath(),
				),
			}
		}
		if unexpanded := unexpandedHome(cmd, args); unexpanded != "" {
			return usageError{
				fmt.Errorf(
					"%s: the shell replaces ~ only where a word begins with it and is not quoted: write $HOME in its place, or ./~ for a folder of this name",
					unexpanded,
				),
			}
		}
		if err := check(cmd, args); errors.As(err, &bad) {
			return err
		} else if err != nil {
			return usageError{fmt.Errorf("%w; see %s --help", argumentFault(cmd, args), cmd.CommandPath())}
		}
		return nil
	}
}

// unexpandedHome returns the first argument or flag with a path below ~; "" if there is none.
func unexpandedHome(cmd *cobra.Command, args []string) (found string) {
	isBelow := func(value string) bool { return value == "~" || strings.HasPrefix(value, "~/") }
	if i := slices.IndexFunc(args, isBelow); i >= 0 {
		return args[i]
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		if i := slices.IndexFunc(values, isBelow); i >= 0 && found == "" {
			found = "--" + f.Name + " " + values[i]
		}
	})
	return found
}

// argumentFault says which arguments the command takes and which it got. Arguments of minsep itself
// are unknown commands.
func argumentFault(cmd *cobra.Command, args []string) error {
	if !cmd.HasParent() {
		return fmt.Errorf("unknown command %q%s", args[0], suggestions(cmd, args[0]))
	}
	takes := "flags only"
	if _, use, _ := strings.Cut(cmd.Use, " "); use != "" && !strings.HasPrefix(use, "-") && !strings.HasPrefix(use, "(") {
		takes = "one argument, " + strings.Fields(use)[0]
	}
	if len(args) == 0 {
		return fmt.Errorf("%s takes %s, which is missing", cmd.Name(), takes)
	}
	text := fmt.Sprintf("%s takes %s, not %s", cmd.Name(), takes, strings.Trim(fmt.Sprintf("%q", args), "[]"))
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if last := args[len(args)-1]; f.Changed && f.Value.Type() == "bool" && (last == "true" || last == "false") {
			text += fmt.Sprintf("; write --%s=%s", f.Name, last)
		}
	})
	return errors.New(text)
}

// addBeamFlags adds the flags of Beam's runners. All but --runner are hidden: they are for users
// who know Beam.
func addBeamFlags(f *pflag.FlagSet, runner *string) {
	f.StringVar(runner, "runner", pipelines.DefaultRunner, "Beam runner: "+strings.Join(pipelines.Runners, ", ")+"; "+words.List(pipelines.Untested)+" are not tested. The runner's own flags are accepted too")
	pipelines.VisitBeamFlags(func(g *flag.Flag) {
		if f.Lookup(g.Name) != nil {
			return
		}
		// The flag gets a value of its own below: Beam must see that it was set.
		f.AddGoFlag(g)
		ours := f.Lookup(g.Name)
		ours.Hidden = true
		ours.Value = beamFlag{ours.Value, g.Name}
	})
}

// beamFlag sets a flag in Beam's own flag set. Beam passes on to the runner only flags that were
// set there.
type beamFlag struct {
	pflag.Value
	name string
}

func (b beamFlag) Set(value string) error { return pipelines.SetBeamFlag(b.name, value) }

// addStageFlags adds the flags of commands that write to a run directory.
func (a *app) addStageFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.key, "key", "", "file of the root key, made by minsep keygen")
	f.StringVar(&a.out, "out", "", "run directory to write to")
	f.BoolVar(&a.dryRun, "dry-run", false, "check everything, print what would be done, write nothing")
}

// stageCommands has a constructor for the command of each stage, by the stage's name. The file of
// each command registers its own.
var stageCommands = map[string]func(a *app) *cobra.Command{}

// options collects the common flags for a stage.
func (a *app) options() pipelines.Options {
	o := pipelines.Options{
		Runner:  a.runner,
		Out:     a.out,
		KeyFile: a.key,
		DryRun:  a.dryRun,
		WorkDir: a.workDir,
		Log:     a.log,
		Faults:  a.zeros,
	}
	a.showAs(a.out, a.key)
	// Stages do not know the screen: their warnings come here, and those that are errors come back as
	// errors.
	o.Tell = func(text string) { a.say(a.stderr, slog.LevelWarn, "warning: "+text) }
	return o
}

// print writes v as JSON with --json. Else it writes the text from table, unless --quiet is set.
func (a *app) print(v any, table func(w io.Writer)) error {
	if a.json {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	if a.quiet {
		return nil
	}
	table(a.stdout)
	return nil
}
