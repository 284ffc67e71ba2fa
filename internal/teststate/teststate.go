// Package teststate gives the tests of a package a state folder of their own, so that they neither
// see the user's registry of run ids nor write to it.
package teststate

import (
	"fmt"
	"os"
)

// Main wraps a testing.M. It sets XDG_STATE_HOME to an empty folder for the tests and the commands
// that they start.
type Main struct {
	Tests interface{ Run() int }
}

// Run runs the tests and removes the folder. It returns their exit code.
func (m Main) Run() int {
	dir, err := os.MkdirTemp("", "minsep-state-")
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return m.Tests.Run()
}
