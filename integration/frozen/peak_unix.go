//go:build unix

package main

import (
	"os"
	"syscall"
)

// peakOf returns the largest resident memory of an ended process, in KiB as Linux counts it.
func peakOf(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss
}
