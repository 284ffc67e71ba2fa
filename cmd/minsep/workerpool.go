package main

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"minsep/internal/param"
	"minsep/internal/printable"
	"minsep/internal/worker"
)

// workerPoolCommand serves as a worker pool beside a runner's TaskManager. Each worker is a process
// of this program.
func workerPoolCommand(a *app) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "worker-pool",
		Short: "Start workers for a Beam runner, beside its TaskManager",
		Long: `worker-pool serves the workers of jobs with --environment_type=EXTERNAL --environment_config=ADDRESS. Run one worker pool
beside each TaskManager, as a sidecar of its pod, until the TaskManager ends. Each worker is a process of its own; its temporary
files go to $TMPDIR, or to the folder --work-dir of the job.

Whoever can connect to the address can start programs here: keep it local to the pod or the machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own, err := os.Executable()
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if bad, ok := errors.AsType[*net.AddrError](err); ok {
				return usageError{
					&param.Error{
						Param: "listen",
						Value: listen,
						Rule:  "must be HOST:PORT, such as localhost:50000: " + bad.Err,
					},
				}
			}
			if err != nil {
				return fmt.Errorf("--listen %s: %w", printable.Line(listen), err)
			}
			return (&worker.Pool{Program: own, Log: a.log}).Serve(cmd.Context(), l)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "localhost:50000", "`ADDRESS` to listen on")
	return cmd
}
