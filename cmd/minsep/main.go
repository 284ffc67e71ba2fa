// Command minsep is the data stage of differentially private training with correlated noise: it
// bounds each owner's contribution, forms b-min-sep batches, accounts for their privacy and makes
// the noise.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/crash"
	"minsep/internal/worker"
)

func main() {
	crash.Begin()
	os.Exit(crash.Guard(os.Stderr, run))
}

// run tells by the arguments alone as which of three programs this one was started: as a worker
// that a container or a pool starts, as a runner's copy of itself, or as the user's command. They
// must be told apart before beam.Init: it serves as a worker, and does not return, where the flags
// say so.
func run() int {
	if worker.IsContract(os.Args[1:]) { // Beam starts a container, or a pool starts one of its workers
		fmt.Fprintln(os.Stderr, "minsep:", worker.Main(context.Background(), os.Args[1:]))
		return exitFailure
	}
	// A runner starts this binary again as a worker, with Beam's own flags.
	for _, arg := range os.Args[1:] {
		// This is --worker in any spelling of package flag; --worker_harness_container_image and others
		// like it are flags that a user gives to a runner.
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "worker") && strings.HasPrefix(arg, "-") &&
			!strings.HasPrefix(strings.TrimLeft(arg, "-"), "worker_") {
			flag.Parse()
			if os.Getenv(worker.EndsVariable) != "" {
				return poolWorker()
			}
			beam.Init() // serves until the runner is done, then exits the process
			return 0
		}
	}
	flag.CommandLine.Parse(nil) // Beam's flags keep their defaults; cobra reads the command line
	beam.Init()
	return execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
}

// poolWorker serves as a worker that exits when its runner is gone: see worker.Serve.
func poolWorker() int {
	value := func(name string) string { return flag.Lookup(name).Value.String() }
	flag.Set("worker", "false") // with it, beam.Init would serve by itself and never return
	beam.Init()
	if err := worker.Serve(context.Background(), value("id"), value("logging_endpoint"), value("control_endpoint")); err != nil {
		fmt.Fprintln(os.Stderr, "minsep: worker:", err)
		return exitFailure
	}
	return 0
}
