package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"minsep/internal/noise"
	"minsep/internal/pipelines"
)

func noiseCommand(a *app) *cobra.Command {
	var stage pipelines.Noise
	var streamed noiseStream
	c := &cobra.Command{
		Use:   "noise --strategy FILE [--noise-multiplier σ] --steps N --coordinates D --key FILE --out DIR",
		Short: "Generate the correlated noise of a training run",
		Long: `noise writes the recipe of the noise that a training adds to its sums of clipped gradients, one row for each step. From it and the
root key, minsep noise --stream makes the noise while the trainer computes. With --files the noise is written too, in files that
NumPy can memory-map as they are.

The values in files depend only on the key, the run id, the strategy, σ, the clip norm, the grid, --words, --steps, --coordinates, and 16
random bytes for each step, which the command draws and writes into the recipe. They do not depend on shards, machines or
interruptions. A stopped or killed command resumes when it is repeated.

The trainer must clip every gradient to the clip norm, and round its coordinates toward zero to multiples of the grid, which
does not raise the norm. It must sum without rounding, and must never use the noise of a step with other gradients. The noise is
secret, and noise in files can be used twice where the files are copied: a stream cannot.

Without --noise-multiplier, σ is taken from the certificate in the run directory.

With --stream, noise writes no files. The run directory must have a recipe. The rows of the
steps from --from-step on go to standard output, for one --shard of the coordinates. Standard input gives the random bytes of
every step from step 0 on, 16 for each, 32 steps ahead of the row that is wanted: a training draws new ones for every step at
its beginning and wherever it goes on, so that no row of noise meets two sums. A head of 4096 bytes comes first: JSON, with the
SHA-256 of the recipe. Banded kinds and BLT first generate the noise of all earlier steps again, or only of the steps since the
last checkpoint in the folder --checkpoint that had the same bytes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if streamed.on {
				return streamNoise(a, cmd, streamed, stage.DType)
			}
			if err := streamed.unused(cmd); err != nil {
				return err
			}
			// Given or not, and not 0 or not: a 0 that is given is at fault.
			stage.FromCertificate = !cmd.Flags().Changed("noise-multiplier")
			return runStage(a, cmd, stage.Run, printNoise)
		},
	}
	a.addStageFlags(c)
	a.addJobFlags(c, "finished work is kept; the same command goes on from there")
	stage.ClipNorm, stage.DType, stage.Words = 1, "float32", string(noise.AES128)
	addFlags(c.Flags(), &stage)
	streamed.addFlags(c)
	return c
}

func printNoise(w io.Writer, n pipelines.NoiseResult) {
	t := newTable(w)
	t.row("run\t%s\t%s", n.RunID, n.Out)
	printTraining(t, n.Training)
	t.row(
		"noise\t%s, %s, strategy %s",
		plural(n.Coordinates, "coordinate"),
		plural(n.Steps, "step"),
		n.Kind,
	)
	t.row("noise multiplier\t%v\tin units of the clip norm%s", n.NoiseMultiplier, ofCertificate(n))
	t.row("clip norm\t%v\tthe sensitivity: rounding toward zero does not raise a norm", n.ClipNorm)
	if n.Warning != "" {
		t.row("grid\t%v\t%s", n.Grid, n.Warning)
	} else {
		t.row("grid\t%v\tround each clipped gradient toward zero to its multiples", n.Grid)
	}
	// Only a choice that is not the default is worth a line.
	if n.Words != noise.AES128 {
		t.row("words\t%s", n.Words)
	}
	if n.Shards == 0 {
		t.row("files\tthe recipe")
	} else {
		t.row("shards\t%d\t%s, type %s", n.Shards, plural(n.Bytes, "byte"), n.DType)
	}
	t.Flush()
}

// ofCertificate says which certificate σ comes from; "" if the user gave σ.
func ofCertificate(n pipelines.NoiseResult) string {
	if n.Certificate == "" {
		return ""
	}
	return fmt.Sprintf(", from %s (%s)", n.Certificate, n.Status)
}

// printTraining prints the training run that the noise belongs to.
func printTraining(t table, of noise.Training) {
	// In capitals, since such noise can serve no certificate: whoever reads this must make it again.
	if !of.Known() {
		t.row("training\tNOT KNOWN: there were no batches, and no certificate with examples, beside the noise; this directory will refuse batches and claims")
		return
	}
	t.row("training\texamples %s, sampler %s", of.Examples, of.Sampler)
}
