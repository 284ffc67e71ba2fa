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
		switch v := x.Pointer(p).(type) {
		case *string:
			f.StringVar(v, x.Name, *v, x.Help)
		case *int:
			f.IntVar(v, x.Name, *v, x.Help)
		case *float64:
			f.Float64Var(v, x.Name, *v, x.Help)
		case *bool:
			f.BoolVar(v, x.Name, *v, x.Help)
		default:
			panic(fmt.Sprintf("minsep: a flag of type %T", v))
		}
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
