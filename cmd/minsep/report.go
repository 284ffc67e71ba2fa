package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/report"
	"minsep/internal/store"
)

// reported is the JSON output of minsep report.
type reported struct {
	Page    string `json:"page"`
	Verdict string `json:"verdict"`
	Secret  bool   `json:"secret,omitempty"`
}

// dateOfPages returns the date to print on a page: SOURCE_DATE_EPOCH if it is set, so that the same
// page has the same bytes again, else now.
func dateOfPages() (time.Time, error) {
	text, set := os.LookupEnv("SOURCE_DATE_EPOCH")
	if !set {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: must be whole seconds since 1970, or not set", text)
	}
	return time.Unix(seconds, 0), nil
}

func reportCommand(a *app) *cobra.Command {
	var o report.Options
	var own time.Duration
	c := &cobra.Command{
		Use:   "report DIR [--out FILE]",
		Short: "Make a page of HTML about a run directory, for people who must be convinced of it",
		Long: `report reads a run directory as inspect does, and writes one file of HTML that needs no network and no script.
The page has the verdict, the promise and the people whom it protects, the secrets, the duties of the trainer, the most that an
attack can do, tables with bars, every check, and text to paste into a paper or a model card. The page is public,
unless --show-secret adds realised batch sizes and participation counts: its title then says so, and only you can read the file.

The page bears the date of today, or the date that the environment variable SOURCE_DATE_EPOCH gives in seconds since 1970.

For a broken run the page says that it is broken, and the command exits with 3.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.OwnSamples = own.Seconds()
			return writeReport(a, cmd.Context(), args[0], o)
		},
	}
	f := c.Flags()
	addFlags(f, &o)
	f.StringVar(&a.out, "out", "", "file to write (default: report.html in the run directory, or report-secret.html with --show-secret)")
	f.DurationVar(&own, "own-samples", 0, "CPU time for fresh samples of a certificate that rests on samples, under a key of your own; without, the verdict says that samples were not recomputed")
	return c
}

// writeReport writes the page of a run directory.
func writeReport(a *app, ctx context.Context, dir string, o report.Options) error {
	if a.out != "" {
		if !strings.HasSuffix(a.out, ".html") {
			return param.Fault("out", a.out,
				"must end in .html: the page is HTML; a browser prints it as PDF, and minsep inspect --json has the contents for programs")
		}
		// Before the directory is read, which may take minutes.
		if err := mayHold("out", a.out); err != nil {
			return err
		}
	}
	date, err := dateOfPages()
	if err != nil {
		return usageError{err}
	}
	o.Now = date
	r, err := report.Read(ctx, dir, o)
	if err != nil {
		return err
	}
	// A secret page has another name and mode, so that nobody publishes it by habit.
	out, mode, name := a.out, manifest.PublicFile, manifest.ReportPage
	if o.ShowSecret {
		mode, name = manifest.SecretFile, manifest.SecretReportPage
	}
	if out == "" {
		out = store.Join(dir, name)
	}
	// The page of a broken run is written too: it says that it is broken, and the exit code is 3.
	write := func(w io.Writer) error { return report.Write(w, r, o) }
	if err := store.Write(ctx, out, store.Options{Mode: mode}, write); err != nil {
		return err
	}
	result := reported{Page: out, Verdict: r.Report.Verdict, Secret: o.ShowSecret}
	err = a.print(result, func(w io.Writer) {
		fmt.Fprintln(w, result.Verdict)
		fmt.Fprintf(w, "page %s\n", out)
	})
	return errors.Join(r.Report.Err(), err)
}
