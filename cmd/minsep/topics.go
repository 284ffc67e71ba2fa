package main

import (
	"github.com/spf13/cobra"

	"minsep/accounting"
	"minsep/mechanism"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
)

// topics returns the pages of minsep help that are not about a command.
func topics() (list []*cobra.Command) {
	for _, t := range []struct{ name, short, long string }{
		{"units", "Whom a claim protects: owners or examples", `A claim protects an owner with at most k_u examples: whoever sees all that is released can hardly tell whether the
gradients of all its examples were replaced by zero. k_u is --max-per-owner of bound. With --sample owners, a claim protects
an owner with any number of examples.

Where owners have several examples, a claim for single examples (--unit example) is another claim, and a weaker one: an
owner with several examples is then not protected. It must be asked for by name, and every output says so in capitals.

An owner is an id in the graph. Somebody with two ids is two owners.`},
		{"secrets", "What must stay secret, and what is public", `Secret: the key file; the folder batches, with how large the batches came out; the folder materialized, which has the
examples in the order of the steps; the folder noise. Whoever knows one of them can undo the guarantee. Only you can read
these folders as they are made, and realised values are shown only with --show-secret.

Public: the graph, plans and parameters, strategies, certificate.json with its ledger, run.json, and the page of
minsep report. The divisor of a sum of gradients is the expected batch size, which is public, and not the size of the
batch.`},
		{"table", "The columns of the table of minsep plan", planTable},
		{"certificates", "What a certificate says, and how to check one", `certificate.json is there only when a claim is proven. It follows from the ledger beside it: minsep inspect DIR makes it
again, compares the bytes, computes every bound without samples again, and compares it with the batches and the noise
in the directory. --recheck N computes N units of samples again.

minsep account --also-epsilon 1,8 certifies delta at further epsilon; --curve prints estimates, which certify nothing.
minsep report DIR makes a page for people who have to be convinced.`},
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
