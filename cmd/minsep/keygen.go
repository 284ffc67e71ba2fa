package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"minsep/internal/store"
	"minsep/internal/stream"
)

func keygenCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:        "keygen FILE",
		SuggestFor: []string{"init"},
		Short:      "Make a root key, the source of all secret randomness",
		Long: `keygen draws 32 random bytes from the operating system and writes them to FILE with mode 0600. It never
overwrites a file. Keep the key as secret as the data: whoever has the key and the run id can compute every batch and all
noise. One key file serves many runs: each run directory has a run id of its own, and no two runs share a random number.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			// A file that is there is left to CreateKeyFile, which refuses it: a key is never overwritten.
			if _, err := store.Stat(cmd.Context(), args[0]); errors.Is(err, fs.ErrNotExist) {
				if err := mayHold("key file", args[0]); err != nil {
					return err
				}
			}
			if err := stream.CreateKeyFile(args[0]); err != nil {
				return err // a full disk is not a fault of the command line
			}
			return a.print(map[string]string{"key": args[0]}, func(w io.Writer) {
				fmt.Fprintf(w, "wrote a new root key to %s\n", args[0])
			})
		},
	}
}
