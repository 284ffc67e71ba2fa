package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"minsep/internal/montecarlo"
	"minsep/internal/printable"
	"minsep/internal/stages"
)

func lossCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "loss CASES.json",
		Short: "Compute privacy losses ln P(y)/Q(y) of given outputs",
		Long: `loss reads a JSON file of cases, each with outputs y of a mechanism, its sampling and its strategy. It fills in the
privacy loss of each case, "log_loss", to compare with a computation of your own, and prints the JSON.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := stages.ReadFile(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			filled, err := montecarlo.EvaluateCases(cases)
			if err != nil {
				return usageError{fmt.Errorf("%s: %w", printable.Line(args[0]), err)}
			}
			_, err = a.stdout.Write(append(filled, '\n'))
			return err
		},
	}
}
