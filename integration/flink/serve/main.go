// Command serve starts a Flink on this machine, prints the flags with which minsep runs there, and
// ends it when it is interrupted. Then it prints what each process has used.
//
//	make flink && go run ./integration/flink/serve -taskmanagers 2 -binary bin/minsep
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"minsep/integration/flink"
)

func main() {
	home := flag.String("home", ".flink", "where `make flink` put Flink")
	dir := flag.String("dir", "", "folder for logs and temporary files (default: a temporary one)")
	managers := flag.Int("taskmanagers", 0, "number of TaskManagers of one slot; 0: all in one process")
	heap := flag.Int("heap", 1024, "MiB of Java heap for the tasks of a TaskManager")
	binary := flag.String("binary", "bin/minsep", "with TaskManagers: the binary that workers run")
	parallelism := flag.Int("parallelism", 2, "parallelism in the printed flags")
	launcher := flag.String("launcher", filepath.Join("integration", "flink", "worker.sh"), "with TaskManagers: program that starts workers")
	pool := flag.Bool("pool", false, "with TaskManagers: print the flags of a pool of workers, which it starts beside them, in place of -launcher")
	replace := flag.Int("replace-after", 0, "with TaskManagers: kill one when a job has finished so many tasks, and start another; 0: never")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	workers := *launcher
	if *pool {
		workers = ""
	}
	if err := serve(ctx, flink.Config{Home: *home, Dir: *dir, TaskManagers: *managers, HeapMiB: *heap}, workers, *binary, *parallelism, *replace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve starts the cluster. Its TaskManagers start their workers by the launcher; without one a
// pool beside them does.
func serve(ctx context.Context, c flink.Config, launcher, binary string, parallelism, replaceAfter int) error {
	k, err := flink.Start(ctx, c)
	if err != nil {
		return err
	}
	flags := k.Flags(parallelism)
	switch {
	case c.TaskManagers > 0 && launcher == "":
		program, err := filepath.Abs(binary) // the pool has a folder of its own
		if err == nil {
			err = k.StartPool(ctx, program)
		}
		if err != nil {
			return errors.Join(err, k.Stop(false))
		}
		flags = k.PoolFlags(parallelism, binary)
	case c.TaskManagers > 0:
		if flags, err = k.ProcessFlags(parallelism, launcher, binary); err != nil {
			return err
		}
	}
	used := flink.Watch(ctx, filepath.Join(k.Dir, "tmp"))
	fmt.Printf("logs: %s\nflags: '%s'\n", k.Logs(), strings.Join(flags, "' '"))
	for replaced := replaceAfter == 0; !replaced && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if replaced, err = k.ReplaceTaskManager(ctx, replaceAfter); err != nil && ctx.Err() == nil {
			return errors.Join(err, k.Stop(false))
		}
	}
	<-ctx.Done()
	if c.TaskManagers > 0 {
		written, err := k.Written(context.WithoutCancel(ctx))
		if err != nil {
			return errors.Join(err, k.Stop(false))
		}
		for job, bytes := range written {
			fmt.Printf("job %s: its tasks wrote %.2f GB to each other\n", job, float64(bytes)/1e9)
		}
	}
	used.Report(os.Stdout)
	return k.Stop(false)
}
