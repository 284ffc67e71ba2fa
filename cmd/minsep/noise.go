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
	f := c.Flags()
	f.StringVar(&stage.Strategy, "strategy", "", "strategy file, made by minsep strategy")
	f.Float64Var(&stage.NoiseMultiplier, "noise-multiplier", 0, "σ: standard deviation of the noise before it is correlated, in units of the clip norm (default: from the certificate in the run directory)")
	f.IntVar(&stage.Steps, "steps", 0, "number of training steps, the same as in the strategy")
	f.Int64Var(&stage.Coordinates, "coordinates", 0, "length of a gradient: the number of parameters of the model")
	f.Float64Var(&stage.ClipNorm, "clip-norm", 1, "ζ: the norm to which gradients are clipped")
	f.Var(&stage.Grid, "grid", "power of two: the noise is rounded to its multiples; or none: then the low bits of floating-point sums may reveal the data (default: by the size of the noise and --dtype)")
	f.IntVar(&stage.Shards, "shards", 0, "number of shards: ranges of coordinates, each in a folder of its own (default: by the number of coordinates); does not change the values")
	f.StringVar(&stage.DType, "dtype", "float32", "type of the numbers in the files: float32, or float64, which has a finer default grid; with --grid the type does not change the values")
	f.StringVar(&stage.Words, "words", "aes-128", "generator of the random words: aes-128, or chacha12, with which a program on an accelerator can make the same noise, bit for bit")
	f.IntVar(&stage.StepsPerFile, "steps-per-file", 0, "number of steps in a file (default 1000); does not change the values")
	f.BoolVar(&stage.Files, "files", false, "write the noise to files too: every copy of them has the same noise, and can hide a second training, which nothing notices")
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
