package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/graphio"
	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/pipelines"
	"minsep/internal/printable"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/mechanism"
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
	// stdout and stderr, of operation, are for text, of any origin: they escape control characters, so
	// that text from files cannot control the terminal. Raw bytes and the command's own control
	// characters go to the writers beneath, bytes and terminal.
	stdout   io.Writer
	bytes    io.Writer // beneath stdout, unescaped
	terminal io.Writer // beneath stderr, unescaped

	runner string
	json   bool
	quiet  bool
	dryRun bool
	key    string
	out    string
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
		bytes:     out, // of noise, too: lost output is noticed there as well
		terminal:  stderr,
		stdout:    printable.Writer(out),
		operation: operation{args: args, stderr: printable.Writer(stderr)},
	}
	ctx, stop := a.onSignal(ctx)
	defer stop()
	defer a.removeTemp()
	root := a.command()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
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
		a.say(strings.TrimSuffix(stopped.Error()+": "+a.resumeHint, ": "))
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
	if cmd == root { // which has no task that can fail
		err = usageError{err}
	}
	text := a.asGiven(message(cmd, err))
	if help := advice(err); help != "" {
		text += "\n" + help
	}
	// The code follows from the error, never from the text: scripts go by it, and texts change.
	code := exitCode(err)
	if a.asksJSON() {
		a.printError(text, code)
		return code
	}
	a.say(text)
	return code
}

// asksJSON reports whether the user wants JSON, even if parsing failed before the flags were set.
func (a *app) asksJSON() bool {
	return a.json || slices.Contains(a.args, "--json") || slices.Contains(a.args, "--json=true")
}

// failure is the JSON form of an error.
type failure struct {
	Error    []string `json:"error"` // one fault a line
	ExitCode int      `json:"exit_code"`
}

// printError prints an error as JSON, on the last line of standard error. Standard output has the
// result, if there is one.
func (a *app) printError(text string, code int) {
	json.NewEncoder(a.stderr).Encode(failure{strings.Split(text, "\n"), code})
}

// usersErrors are those that the user can mend by other words, paths or data. Missing files and
// missing rights are among them: the same command ends the same way.
var usersErrors = []error{
	mechanism.ErrTooLarge, pipelines.ErrInput, manifest.ErrLocked, manifest.ErrExists, manifest.ErrInvalid,
	store.ErrNotRegular, store.ErrNotText, fs.ErrNotExist, fs.ErrPermission,
	syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.EROFS, syscall.ELOOP,
}

// exitCode returns the exit code of an error: 3 if a guarantee failed, 2 for a fault of the user's,
// and 1 for all others, which a repetition may get past. The first case wins, since the error of a
// failed guarantee may hold faults of parameters too.
func exitCode(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(inspect.ErrFailedCheck), unverified(err):
		return exitNotVerified
	case errors.As(err, new(usageError)), errors.As(err, new(*param.Error)), errors.As(err, new(*graphio.Fault)), errors.As(err, new(*noise.GrowthError)),
		slices.ContainsFunc(usersErrors, is):
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

Exit codes: 0 done; 1 a failure of the machine or of a runner; 2 a fault in the command line or the input;
3 a guarantee could not be verified; 130 and 143 stopped by SIGINT and SIGTERM; 134 ended by
Go's runtime, for example because memory ran out. After 1, 130, 134 and 143 the same command may be repeated as it is.`,
		Version:           versionText(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// The command that makes completions for shells works, and is left out of the help.
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print the result as JSON")
	f.BoolVar(&a.quiet, "quiet", false, "print no progress and no summary")
	f.StringVar(&a.logLevel, "log-level", "warn", "lowest level that is logged to standard error: debug, info, warn, error, or off")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(refuseHome(a.args), refuseEmpty(cmd), a.makeLog())
	}
	addBeamFlags(f, &a.runner)
	// The order of the commands in the help is the order of the stages in a run.
	root.AddCommand(
		boundCommand(a),
		strategyCommand(a),
		accountCommand(a),
		formCommand(a),
		noiseCommand(a),
		prepareCommand(a),
		keygenCommand(a),
		inspectCommand(a),
		reportCommand(a),
		planCommand(a),
		runCommand(a),
		composeCommand(a),
		statisticsCommand(a),
		workerPoolCommand(a),
		manCommand(),
	)
	for _, c := range root.Commands() {
		// These look at the flags that the constructors have defined, so they come last.
		checkArgs(c)
		acceptPowers(c)
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	return root
}

// flagError is the error of flags that cobra cannot parse, with the way out.
func flagError(cmd *cobra.Command, err error) error {
	err = flagFault(err)
	if text := inPlanInstead(cmd, err); text != "" {
		return usageError{errors.New(text)}
	}
	return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
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
	return fmt.Sprintf(
		"--%s stands in the plan, as %s: change it there and run the plan again, with another --out, or by --again NEW, which takes over what still holds",
		name,
		field,
	)
}

// checkArgs makes a wrong number of arguments a usage error that says how the command is called.
func checkArgs(c *cobra.Command) {
	check := c.Args
	c.Args = func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "") {
			return usageError{errors.New("an argument is empty, as of a variable of the shell that is not set")}
		}
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("arguments %q: must be as in %s", args, cmd.UseLine())}
		}
		return nil
	}
}

// unexpandedHome matches an argument with a path below ~, which the shell has not replaced.
var unexpandedHome = regexp.MustCompile(`^(--[a-z-]+=)?~(/|$)`)

func refuseHome(words []string) error {
	if i := slices.IndexFunc(words, unexpandedHome.MatchString); i >= 0 {
		return usageError{fmt.Errorf(
			"%s: the shell replaces ~ only where a word begins with it and is not quoted: write $HOME in its place, or ./~ for a folder of this name",
			words[i],
		)}
	}
	return nil
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

// options collects the common flags for a stage.
func (a *app) options() pipelines.Options {
	return pipelines.Options{
		Runner:  a.runner,
		Out:     a.out,
		KeyFile: a.key,
		DryRun:  a.dryRun,
		WorkDir: a.workDir,
		Log:     a.log,
	}
}

// runStage runs a stage under the progress line, and prints its result.
func runStage[R any](
	a *app,
	cmd *cobra.Command,
	run func(context.Context, pipelines.Options) (R, error),
	table func(io.Writer, R),
) error {
	stop := a.watch(cmd.Name())
	result, err := run(cmd.Context(), a.options())
	stop()
	if err != nil {
		return err
	}
	return a.print(result, func(w io.Writer) { table(w, result) })
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
