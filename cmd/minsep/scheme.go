package main

import (
	"fmt"
	"strings"

	"minsep/sampling"
)

// schemesHelp lists the schemes for a help text.
func schemesHelp() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Schemes: %s\n", strings.Join(sampling.KindNames(), ", "))
	for _, k := range sampling.Kinds {
		fmt.Fprintf(&b, "  %-16s  %s\n", k.Name, strings.ReplaceAll(k.Help, "\n", " "))
	}
	return b.String()
}
