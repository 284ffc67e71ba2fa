package main

import (
	"github.com/spf13/pflag"

	"minsep/pipelines"
)

// addSchemeFlags adds the flags that say how examples take part, for the commands that form batches and those that
// account for them.
func addSchemeFlags(f *pflag.FlagSet, p *pipelines.SchemeParams) {
	f.StringVar(&p.Scheme, "scheme", "b-min-sep", "how examples take part")
	f.IntVar(&p.Steps, "steps", 0, "number of training steps")
	f.IntVar(&p.MinSep, "min-sep", 0, "least distance in steps of two participations; the epoch of balls-in-bins")
	f.Float64Var(&p.BatchSize, "batch-size", 0, "expected batch size; exact for fixed")
	f.Float64Var(&p.Prob, "prob", 0, "probability of an available example to take part in a step, instead of a batch size")
	f.BoolVar(&p.Cold, "cold", false, "b-min-sep: begin with all examples available (arXiv 2602.09338, Algorithm 1)")
	f.BoolVar(&p.SecretPartition, "secret-partition", false, "cyclic-poisson: draw each example's part")
	f.IntVar(&p.MaxBatchSize, "max-batch-size", 0, "cut larger batches to a random subset of this size")
	f.BoolVar(&p.Pad, "pad", false, "fill smaller batches up to the max batch size with row -1")
	f.IntVar(&p.MaxParticipations, "max-participations", 0, "fixed: let nobody take part more often than this")
}
