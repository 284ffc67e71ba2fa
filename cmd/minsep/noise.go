package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"minsep/internal/noise"
	"minsep/internal/pipelines"
)

func init() { stageCommands["noise"] = noiseCommand }

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
			o := a.options()
			if streamed.on {
				return streamNoise(a, cmd, streamed, stage.DType, o)
			}
			if err := streamed.unused(cmd); err != nil {
				return err
			}
			// Given or not, and not 0 or not: a 0 that is given is at fault.
			stage.FromCertificate = !cmd.Flags().Changed("noise-multiplier")
			stop := a.watch("noise")
			result, err := stage.Run(cmd.Context(), o)
			stop()
			if err != nil {
				return noiseFault(err)
			}
			return a.print(result, func(w io.Writer) { printNoise(w, result) })
		},
	}
	a.addStageFlags(c)
	a.addJobFlags(c, "finished work is kept; the same command goes on from there")
	stage.ClipNorm, stage.DType, stage.Words = 1, "float32", string(noise.AES128)
	addFlags(c.Flags(), &stage)
	streamed.addFlags(c)
	return c
}

// noiseFault marks errors of a request that cannot be met as usage errors: exit code 2.
func noiseFault(err error) error {
	if errors.As(err, new(*noise.GrowthError)) {
		return usageError{err}
	}
	return err
}

func printNoise(w io.Writer, n pipelines.NoiseResult) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "run\t%s\t%s\n", n.RunID, n.Out)
	printTraining(t, n.Training)
	fmt.Fprintf(
		t,
		"noise\t%s, %s, strategy %s\n",
		plural(n.Coordinates, "coordinate"),
		plural(n.Steps, "step"),
		n.Kind,
	)
	fmt.Fprintf(t, "noise multiplier\t%v\tin units of the clip norm%s\n", n.NoiseMultiplier, ofCertificate(n))
	fmt.Fprintf(t, "clip norm\t%v\tthe sensitivity: rounding toward zero does not raise a norm\n", n.ClipNorm)
	if n.Warning != "" {
		fmt.Fprintf(t, "grid\t%v\t%s\n", n.Grid, n.Warning)
	} else {
		fmt.Fprintf(t, "grid\t%v\tround each clipped gradient toward zero to its multiples\n", n.Grid)
	}
	// Only a choice that is not the default is worth a line.
	if n.Words != noise.AES128 {
		fmt.Fprintf(t, "words\t%s\n", n.Words)
	}
	if n.Shards == 0 {
		fmt.Fprintf(t, "files\tthe recipe\n")
	} else {
		fmt.Fprintf(t, "shards\t%d\t%s, type %s\n", n.Shards, plural(n.Bytes, "byte"), n.DType)
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
func printTraining(w io.Writer, t noise.Training) {
	// In capitals, since such noise can serve no certificate: whoever reads this must make it again.
	if t.Known() {
		fmt.Fprintf(w, "training\texamples %s, sampler %s\n", t.Examples, t.Sampler)
		return
	}
	fmt.Fprintf(
		w,
		"training\tNOT KNOWN: there were no batches, and no certificate with examples, beside the noise; this directory will refuse batches and claims\n",
	)
}
