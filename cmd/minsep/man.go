package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"minsep/internal/manifest"
)

// manCommand returns a hidden command that writes the help of all commands as pages for man.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write pages for man",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return doc.GenManTree(
				cmd.Root(),
				&doc.GenManHeader{Section: "1", Source: "minsep " + manifest.Version, Manual: "minsep"},
				args[0],
			)
		},
	}
}
