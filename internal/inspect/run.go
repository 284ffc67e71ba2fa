package inspect

import (
	"context"
	"fmt"
	"strings"

	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
)

// inspectRun compares the finished results in a run directory with the files that run.json names.
func inspectRun(ctx context.Context, path string, found *Inspection) error {
	dir := store.Dir(path)
	names, err := stages.Strangers(ctx, dir)
	found.nothingElse(
		"run directory and ledger hold nothing extra that could be taken for a part of the run",
		stages.NotOfRun,
		names,
		err,
	)
	run, err := manifest.ReadRun(ctx, dir)
	if err != nil {
		return err
	}
	found.all.Info = &run
	found.check("whole", "run.json is as it was written, and its plan has the SHA-256 that it says", true)
	if run.Test {
		found.check("fresh", "a test has fixed the run id: the batches and the noise may serve no training", false)
	}
	if n := len(run.Earlier); n > 0 {
		found.Notes = append(
			found.Notes,
			fmt.Sprintf(
				"table, strategy or certificate are from %s before, each in a directory of its own: the certificate is for each training alone; "+
					"minsep compose adds up trainings of which anything is released",
				words.Count(n, "run"),
			),
		)
	}
	here, err := stages.ReadPresent(ctx, dir, manifest.CertificateFile, manifest.NoiseFolder)
	if of := here.Identity(); err == nil && of != "" && run.Examples != "" { // the inspection of the batches reports a fault
		found.check("examples", "the batches, or else the bounded table, are of the examples that run.json names, "+run.Examples, of == run.Examples)
	}
	for _, name := range stages.Names() {
		if named, finished := run.Stages[name]; finished {
			differs := stages.NotNamed(ctx, dir, named)
			found.count(name, strings.Join(append([]string{"the files that run.json names"}, differs...), "; "), int64(len(differs)))
		}
	}
	return nil
}
