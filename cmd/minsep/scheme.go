package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"minsep/sampling"
)

// addSchemeFlags adds the flags of the sampling scheme, for commands that form batches or account
// for them. There is one for each of sampling.Parameters.
func addSchemeFlags(f *pflag.FlagSet, p *sampling.Params) {
	p.Scheme = sampling.DefaultScheme
	for _, x := range sampling.Parameters {
		addFlag(f, x.Pointer(p), x.Name, x.Help)
	}
}

// schemesHelp lists the schemes for a help text.
func schemesHelp() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Schemes: %s\n", strings.Join(sampling.KindNames(), ", "))
	for _, k := range sampling.Kinds {
		fmt.Fprintf(&b, "  %-16s  %s\n", k.Name, strings.ReplaceAll(k.Help, "\n", " "))
	}
	return b.String()
}
