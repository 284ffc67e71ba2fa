package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/words"
	"minsep/mechanism"
)

// trainingFlags adds the flags of the training for which a strategy's error is measured.
func trainingFlags(f *pflag.FlagSet, p *mechanism.Params) {
	f.StringVar(&p.Workload, "workload", "", "workload that the error is measured on: prefix, training, or a JSON file (default: training if any flag of a training is given, else prefix)")
	f.StringVar(&p.Optimizer, "optimizer", "", "optimizer of the training: sgd or adam (default sgd)")
	f.Float64Var(&p.Momentum, "momentum", 0, fmt.Sprintf("momentum, or Adam's β₁ (default %g for adam, else 0)", mechanism.AdamMomentum))
	f.Float64Var(&p.WeightDecay, "weight-decay", 0, "weight decay, as it is given to the optimizer of the framework; needs --learning-rate")
	f.Float64Var(&p.LearningRate, "learning-rate", 0, "largest learning rate of the schedule; matters with --weight-decay only")
	f.StringVar(&p.Schedule, "schedule", "", "schedule of the learning rates: "+words.List(mechanism.Schedules)+", or a JSON file with a list of numbers (default constant)")
	f.IntVar(&p.WarmupSteps, "warmup-steps", 0, "for the schedule warmup-cosine: steps of the warm-up (default: a tenth of the steps)")
	f.Var(&p.Memory, "memory", "number of steps `M` after which the model has forgotten a step: at least 1, or inf (default: half of the steps)")
}

// usualMomentum sets the usual momentum for Adam, unless --momentum is given.
// It must run before the parameters are checked, and a momentum of 0 that is given stays 0.
func usualMomentum(cmd *cobra.Command, p *mechanism.Params) {
	if p.Optimizer == mechanism.Adam && !cmd.Flags().Changed("momentum") {
		p.Momentum = mechanism.AdamMomentum
	}
}
