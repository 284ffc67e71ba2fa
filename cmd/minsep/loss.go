package main

import (
	"github.com/spf13/cobra"

	"minsep/accounting/montecarlo"
	"minsep/stages"
)

func (a *app) lossCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "loss CASES.json",
		Short: "Compute privacy losses ln P(y)/Q(y) of given outputs",
		Long: `loss fills in "log_loss" for every case of a file: outputs y of a mechanism, its sampling and its strategy.
Compare it with a computation of your own. The result goes to standard output as JSON.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := stages.ReadFile(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			filled, err := montecarlo.EvaluateCases(cases)
			if err != nil {
				return usageError{err}
			}
			_, err = a.stdout.Write(append(filled, '\n'))
			return err
		},
	}
}
