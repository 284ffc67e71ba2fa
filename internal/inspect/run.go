package inspect

import (
	"context"
	"fmt"

	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
)

// inspectRun compares the result of every stage in a run directory with run.json: with the files
// that run.json names, and with the parameters and inputs of its plan. It needs neither the key nor
// the inputs.
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
	if run.TakingOver {
		found.check(
			"taken over",
			"the copy of an earlier run's results was not finished: repeat minsep run --again",
			false,
		)
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
	found.examples(ctx, dir, run)
	if run.Plan == nil {
		return nil
	}
	directory, err := stages.PlanOf(dir, run)
	if err != nil {
		return err
	}
	names, err = directory.Plan.Stages("")
	if err != nil {
		return err
	}
	for _, name := range names {
		found.stage(ctx, directory, name)
	}
	return nil
}

// examples compares the examples in run.json with those of the batches or, without batches, with
// the bounded table. Whether the batches are of that table is checked with the batches.
func (i *Inspection) examples(ctx context.Context, dir string, run manifest.Run) {
	formed, err := stages.FormedOf(ctx, dir, run)
	if err != nil || run.Examples == "" { // the inspection of the batches reports a fault
		return
	}
	if formed == "" {
		table, err := manifest.DigestOf(ctx, store.Join(dir, manifest.BoundedFolder))
		if err == nil { // otherwise there is no table, or its own inspection reports the fault
			i.check(
				"examples",
				fmt.Sprintf("the bounded table is that of the examples that run.json names (%s)", run.Examples),
				run.Examples == manifest.BoundedExamples(table),
			)
		}
		return
	}
	i.check(
		"examples",
		fmt.Sprintf("the batches are of the examples that run.json names (%s)", run.Examples),
		run.Examples == formed,
	)
}

// mostDifferences is the number of differences between a stage's result and the plan that are
// reported.
const mostDifferences = 20

// stage compares a stage's result with run.json and the plan.
func (i *Inspection) stage(ctx context.Context, d *stages.Directory, name string) {
	r := d.Result(name)
	there, differs, err := d.Compare(ctx, r)
	_, finished := d.Run.Stages[name]
	switch {
	case err != nil:
		i.check(name, err.Error(), false)
	case differs != nil:
		for _, d := range differs[:min(mostDifferences, len(differs))] {
			i.check(name, d, false)
		}
		if more := len(differs) - mostDifferences; more > 0 {
			i.check(name, fmt.Sprintf("and %d more differences", more), false)
		}
	case there:
		i.check(name, "the files that run.json names, with the plan's parameters and inputs", true)
	case finished:
		i.check(name, store.Base(r.Path())+" is missing: run.json says that the stage is finished", false)
	}
}
