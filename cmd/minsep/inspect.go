package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"minsep/pipelines"
)

func (a *app) inspectCommand() *cobra.Command {
	var showSecret bool
	var recheck int
	c := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Read a run directory again and check every promise",
		Long: `inspect reads a run directory, or one of its folders, without trusting it: sizes and hashes of the files, the
bound of every owner, the separation of every example and owner, batch sizes, and the number of participations against
its law. A certificate is made again from its ledger, bit for bit, and compared with the batches beside it: --recheck
computes some units of its verification again as well. It exits with 3 when a promise does not hold. What came out by
chance, such as batch sizes, is secret and shown only with --show-secret.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := pipelines.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if recheck > 0 {
				units, err := pipelines.Recheck(cmd.Context(), args[0], recheck)
				if err != nil {
					return err
				}
				found = append(found, units)
			}
			if !showSecret {
				for i := range found {
					found[i].Realized = nil
				}
			}
			if err := a.print(found, func(w io.Writer) { printInspection(w, found) }); err != nil {
				return err
			}
			return pipelines.Broken(found)
		},
	}
	c.Flags().BoolVar(&showSecret, "show-secret", false, "also show what came out by chance")
	c.Flags().IntVar(&recheck, "recheck", 0, "compute this many units of the verification again, chosen at random")
	return c
}

func printInspection(w io.Writer, found []pipelines.Inspection) {
	for _, i := range found {
		fmt.Fprintln(w, i.Folder)
		for _, p := range i.Promises {
			mark := "ok    "
			if !p.Held {
				mark = "BROKEN"
			}
			fmt.Fprintf(w, "  %s  %s: %s", mark, p.Name, p.Rule)
			if p.Broken > 0 {
				fmt.Fprintf(w, " (broken %s times)", grouped(p.Broken))
			}
			fmt.Fprintln(w)
		}
		for _, note := range i.Notes {
			fmt.Fprintf(w, "  note    %s\n", note)
		}
		if r := i.Realized; r != nil {
			fmt.Fprintf(w, "  secret  %s participations, mean %.6g, standard deviation %.4g; batches of %d to %d; at most %d of an example",
				grouped(r.Participations), r.Mean, r.StandardDeviation, r.SmallestBatch, r.LargestBatch, r.MostParticipations)
			if r.MostParticipationsByUser > 0 {
				fmt.Fprintf(w, ", %d of an owner", r.MostParticipationsByUser)
			}
			fmt.Fprintln(w)
		}
	}
}
