package main

import (
	"github.com/spf13/cobra"

	"minsep/internal/accounting"
	"minsep/internal/ownergraph"
	"minsep/mechanism"
	"minsep/sampling"
)

// topics returns the pages of minsep help that are not about a command.
func topics() (list []*cobra.Command) {
	for _, t := range []struct{ name, short, long string }{
		{"units", "Whom a claim protects: owners or examples", `A claim protects an owner with at most k_u examples: whoever sees everything that is released can hardly tell whether the
gradients of all examples of the owner were replaced by zero. The flag --max-per-owner of minsep bound sets k_u. With --sample
owners, a claim protects an owner with any number of examples.

A claim for single examples (--unit example) is weaker: it does not protect an owner with several examples. You must ask for it
by name, and every output says so in capitals.

An owner is an id in the graph. A person with two ids is two owners.`},
		{"secrets", "What must stay secret, and what is public", `Secret: the key file; the folder batches, and with it the realised batch sizes; the folder noise. Whoever knows one of
them can undo the guarantee. The folders are made so that only you can read them. Realised values are shown only with --show-secret.

Public: the graph, plans and parameters, strategies, certificate.json with its ledger, run.json, and the page of
minsep report. A trainer divides its sums of gradients by the expected batch size, which is public, and not by the realised
batch size.`},
		{"table", "The columns of the table of minsep plan", planTable},
		{"certificates", "What a certificate says, and how to check one", `certificate.json exists only when a claim is proven. It follows from the ledger beside it. minsep inspect DIR computes it
from the ledger again and compares the bytes, computes every bound that needs no samples again, and compares the certificate
with the batches and the noise in the directory. With --recheck N it also computes N units of samples again.

minsep account --also-epsilon 1,8 certifies delta at further values of epsilon; --curve prints estimates, which certify nothing.
minsep report DIR makes a page for people who must be convinced.`},
	} {
		list = append(list, &cobra.Command{Use: t.name, Short: t.short, Long: t.long, Args: cobra.NoArgs})
	}
	return list
}

// completeValues adds shell completion for flags that take one of a list, unless the command has
// its own.
func completeValues(c *cobra.Command) {
	values := map[string][]string{
		"scheme": sampling.KindNames(),
		"kind":   mechanism.Kinds(),
		"order":  ownergraph.Orders,
		"unit":   {string(accounting.UnitOwner), string(accounting.UnitExample)},
	}
	for name, list := range values {
		if _, has := c.GetFlagCompletionFunc(name); has || c.Flags().Lookup(name) == nil {
			continue
		}
		if err := c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag exists, and has no completion yet
		}
	}
}
