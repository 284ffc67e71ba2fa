package main

import (
	"github.com/spf13/cobra"

	"minsep/mechanism"
)

// usualMomentum sets the usual momentum for Adam, unless --momentum is given.
// It must run before the parameters are checked, and a momentum of 0 that is given stays 0.
func usualMomentum(cmd *cobra.Command, p *mechanism.Params) {
	if p.Optimizer == mechanism.Adam && !cmd.Flags().Changed("momentum") {
		p.Momentum = mechanism.AdamMomentum
	}
}
