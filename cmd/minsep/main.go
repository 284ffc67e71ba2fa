// Command minsep is the data stage of differentially private training with correlated noise: it
// bounds each owner's contribution, forms b-min-sep batches, accounts for their privacy and makes
// the noise.
package main

import (
	"context"
	"flag"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/crash"
)

func main() {
	crash.Begin()
	os.Exit(crash.Guard(os.Stderr, run))
}

func run() int {
	// A runner starts this binary again as a worker, with flags that are Beam's own.
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "worker") && strings.HasPrefix(arg, "-") && !strings.HasPrefix(strings.TrimLeft(arg, "-"), "worker_") {
			flag.Parse()
			beam.Init() // serves until the runner is done, then exits
			return 0
		}
	}
	flag.CommandLine.Parse(nil) // Beam's flags have their defaults; the command line is cobra's
	beam.Init()
	return execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
}
