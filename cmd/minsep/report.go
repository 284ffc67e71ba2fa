package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
}

func reportCommand(a *app) *cobra.Command {
	var o report.Options
	var own time.Duration
	c := &cobra.Command{
		Use:   "report DIR [--out FILE]",
		Short: "Make a page of HTML about a run directory, for people who must be convinced of it",
		Long: `report reads a run directory as inspect does, and writes one file of HTML that needs no network and no script.
The page has the verdict, the promise and the people whom it protects, the secrets, the duties of the trainer, the most that an
attack can do, tables with bars, every check, and text to paste into a paper or a model card. The page is public.

For a broken run the page says that it is broken, and the command exits with 3.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.OwnSamples = own.Seconds()
			return writeReport(a, cmd.Context(), args[0], o)
		},
	}
	f := c.Flags()
	addFlags(f, &o)
	f.StringVar(&a.out, "out", "", "file to write (default: report.html in the run directory)")
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
	r, err := report.Read(ctx, dir, o)
	if err != nil {
		return err
	}
	out := a.out
	if out == "" {
		out = store.Join(dir, manifest.ReportPage)
	}
	// The page of a broken run is written too: it says that it is broken, and the exit code is 3.
	write := func(w io.Writer) error { return report.Write(w, r, o) }
	if err := store.Write(ctx, out, store.Options{Mode: manifest.PublicFile}, write); err != nil {
		return err
	}
	result := reported{Page: out, Verdict: r.Report.Verdict}
	err = a.print(result, func(w io.Writer) {
		fmt.Fprintln(w, result.Verdict)
		fmt.Fprintf(w, "page %s\n", out)
	})
	return errors.Join(r.Report.Err(), err)
}
