package main

import (
	"github.com/spf13/cobra"

	"minsep/internal/accounting"
	"minsep/internal/ownergraph"
	"minsep/mechanism"
	"minsep/sampling"
)

// completeValues adds shell completion for flags that take one of a list, unless the command has
// its own.
func completeValues(c *cobra.Command) {
	values := map[string][]string{
		"scheme": sampling.KindNames(),
		"kind":   mechanism.Kinds(anyFamily),
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
