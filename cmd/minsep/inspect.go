package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minsep/internal/accounting"
	"minsep/internal/inspect"
	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/sampling"
)

// ownSamples is the default of --own-samples. Tests take less: see TestMain.
var ownSamples = 5 * time.Second

// inspection is what the flags of inspect ask for.
type inspection struct {
	ShowSecret bool          `flag:"show-secret" help:"also show realised values, such as batch sizes"`
	Verbose    bool          `flag:"verbose" help:"list every check, also when all of them pass"`
	OwnSamples time.Duration `flag:"own-samples" help:"CPU time for fresh samples of a certificate that rests on samples, under a key of your own; 0 for none"`
	Recheck    int           `flag:"recheck" help:"recompute this many blocks of the verification, of at most 256 samples, drawn by their samples"`
}

func inspectCommand(a *app) *cobra.Command {
	q := inspection{OwnSamples: ownSamples}
	c := &cobra.Command{
		Use:        "inspect DIR",
		SuggestFor: []string{"check", "validate", "verify"},
		Short:      "Read a run directory again and check all that its claim rests on",
		Long: `inspect reads a run directory, or one of its folders, without trusting it: sizes and hashes of the files, the
bound of every owner, the separation of every example and owner, the batch sizes and the number of participations against
their distribution. A certificate is recomputed from its ledger, bit for bit, and compared with the batches beside it.
Its proofs are computed again. If it rests on samples, fresh ones are drawn for 5 s of a processor (--own-samples) under a
key that nobody knew before, and bound delta: they find a forged ledger, and one that was repeated until it was accepted.
--recheck recomputes blocks of 256 samples of the verification as well.

The first line is the verdict: "certified: ", with the claim, what matches it and what was recomputed; "certified, but weak: ", where the claim
holds and protects hardly anybody, since delta is not below 1/owners or no attack is bounded; "NOT CERTIFIED: ", with what is
missing; or "BROKEN: ", with the checks that fail, and exit code 3. Of a certified run, the next line bounds what a test of
who took part can do, and another compares the noise of a single step with DP-SGD's. Warnings name secret files that others
can read, and steps of a training that were taken more than once. Single checks follow when one fails, or with --verbose; with --quiet, only those that
fail are printed. Realised values, such as batch sizes, are secret and shown only with --show-secret.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := inspect.Options{OwnSamples: q.OwnSamples.Seconds(), Recheck: q.Recheck, ShowSecret: q.ShowSecret}
			report, err := inspect.Directory(cmd.Context(), args[0], o)
			if err != nil {
				return err
			}
			err = a.print(report, func(w io.Writer) { printReport(w, report, q.Verbose) })
			failed := report.Err()
			// With --quiet there is no table, so the broken checks come as errors.
			if a.quiet && !a.json {
				failed = errors.Join(append([]error{failed}, brokenChecks(report.Folders)...)...)
			}
			return errors.Join(failed, err)
		},
	}
	addFlags(c.Flags(), &q)
	return c
}

// brokenChecks returns an error for each broken check. With --quiet nothing else names them.
func brokenChecks(found []inspect.Inspection) (list []error) {
	for _, i := range found {
		for _, p := range i.Checks {
			if !p.Held {
				list = append(list, fmt.Errorf("%s: %s: %s", i.Folder, p.Name, p.Rule))
			}
		}
	}
	return list
}

// printReport prints the verdict and its warnings. It lists the checks if one is broken or verbose
// is set.
func printReport(w io.Writer, r inspect.Report, verbose bool) {
	fmt.Fprintln(w, r.Verdict)
	if r.Kept != "" {
		fmt.Fprintln(w, r.Kept)
	}
	for _, why := range r.Weak {
		fmt.Fprintf(w, "weak: %s\n", why)
	}
	if r.Attacks != nil {
		fmt.Fprintf(w, "attacks, %s: %s\n", r.Attacks.Worth, attackText(*r.Attacks))
	}
	if r.StepNoise != nil {
		fmt.Fprintf(w, "noise: %s\n", r.StepNoise)
	}
	if r.Exposed != nil {
		fmt.Fprintln(w, exposedText(r.Exposed))
	}
	if taken := r.Taken.String(); taken != "" {
		fmt.Fprintf(w, "warning: %s\n", taken)
	}
	for _, i := range r.Folders {
		checks := verbose || r.State == inspect.StateBroken
		// A folder without anything to say is left out.
		if !checks && i.Notes == nil && i.Realized == nil {
			continue
		}
		fmt.Fprintln(w, i.Folder)
		if checks {
			printChecks(w, i.Checks)
		}
		for _, note := range i.Notes {
			fmt.Fprintf(w, "  note    %s\n", note)
		}
		if i.Realized != nil {
			printRealized(w, i.Realized)
		}
	}
}

// exposedText warns of secret files that group or others can read, and gives the command that
// closes them.
func exposedText(list []inspect.Exposed) string {
	var what, paths []string
	for _, e := range list {
		of := words.Count(e.Files, "file")
		if e.Files == 0 {
			of = "sizes of files"
		}
		what = append(what, store.Base(e.Path)+" ("+of+")")
		paths = append(paths, shellWord(e.Path))
	}
	return "warning: modes let group or others read what is secret: " + strings.Join(what, ", ") + "; to mend it: chmod -R go= " + strings.Join(paths, " ")
}

// plainWord matches words that a shell takes literally.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./:@%+=,-]*$`)

// shellWord quotes a path for a shell, so that it is one word and is not taken for a flag.
func shellWord(path string) string {
	path = strings.TrimPrefix(path, "file://")
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	if plainWord.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// attackText formats the bounds on a membership inference attack as one line.
func attackText(a accounting.AttackBounds) string {
	text := "advantage " + accounting.AtMost(a.Advantage)
	for _, rate := range a.Rates {
		text += fmt.Sprintf(
			"; true positive rate %s at a false positive rate of %g",
			accounting.AtMost(rate.TPR),
			rate.FPR,
		)
	}
	return text
}

func printChecks(w io.Writer, checks []sampling.Check) {
	for _, p := range checks {
		mark := "ok    "
		if !p.Held {
			mark = "BROKEN"
		}
		fmt.Fprintf(w, "  %s  %s: %s", mark, p.Name, strings.ReplaceAll(p.Rule, "\n", "; "))
		if p.Broken > 1 {
			fmt.Fprintf(w, " (broken %s times)", words.Grouped(p.Broken))
		}
		fmt.Fprintln(w)
	}
}

func printRealized(w io.Writer, r *sampling.Realized) {
	fmt.Fprintf(w, "  secret  %s participations, mean %.6g, standard deviation %.4g; batches of %d to %d",
		words.Grouped(r.Participations), r.Mean, r.StandardDeviation, r.SmallestBatch, r.LargestBatch)
	join := "; at most "
	if r.MostParticipations > 0 {
		fmt.Fprintf(w, "%s%d of an example", join, r.MostParticipations)
		join = ", "
	}
	if r.MostParticipationsByUser > 0 {
		fmt.Fprintf(w, "%s%d of an owner", join, r.MostParticipationsByUser)
	}
	fmt.Fprintln(w)
}
