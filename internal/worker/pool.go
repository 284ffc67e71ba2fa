package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"

	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"google.golang.org/grpc"
)

// Pool starts workers for runners. Each worker is a process with a folder of its own, which is
// removed when the process ends. The pool serves anybody who can connect, and runs the program that
// a runner names: let it listen only where the runner is.
type Pool struct {
	fnpb.UnimplementedBeamFnExternalWorkerPoolServer

	Program string // that is started; it calls [Main]
	Dir     string // for the workers' folders; "" is the system's for temporary files
	Log     *slog.Logger

	mu      sync.Mutex
	running map[key]*process
	ended   sync.WaitGroup
	closed  bool
}

// key identifies a worker. TaskManagers of one machine give their workers the same ids.
type key struct{ id, control string }

// process is a running worker.
type process struct{ cmd *exec.Cmd }

// Serve serves until the context ends; then it ends the workers.
func (p *Pool) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer()
	fnpb.RegisterBeamFnExternalWorkerPoolServer(server, p)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	err := server.Serve(l)
	p.close()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// close ends all workers and waits for their ends.
func (p *Pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.running {
		w.cmd.Process.Kill()
	}
	p.mu.Unlock()
	p.ended.Wait()
}

// StartWorker starts a worker. It first ends a worker of the same name: a TaskManager that asks for
// it again has lost it.
func (p *Pool) StartWorker(_ context.Context, r *fnpb.StartWorkerRequest) (*fnpb.StartWorkerResponse, error) {
	if err := p.start(r); err != nil {
		p.Log.Error("worker not started", "id", r.GetWorkerId(), "error", err)
		return &fnpb.StartWorkerResponse{Error: err.Error()}, nil
	}
	return &fnpb.StartWorkerResponse{}, nil
}

// start starts the process of a worker.
func (p *Pool) start(r *fnpb.StartWorkerRequest) error {
	if r.GetControlEndpoint().GetAuthentication() != nil || r.GetLoggingEndpoint().GetAuthentication() != nil {
		return fmt.Errorf(
			"worker %s: the runner's endpoints ask for authentication, which workers do not have",
			r.GetWorkerId(),
		)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("worker %s: the pool is ending", r.GetWorkerId())
	}
	at := key{r.GetWorkerId(), r.GetControlEndpoint().GetUrl()}
	if old := p.running[at]; old != nil {
		old.cmd.Process.Kill()
	}
	dir, err := os.MkdirTemp(p.Dir, "minsep-pool-")
	if err != nil {
		return err
	}
	w := &process{
		exec.Command(p.Program, "--id="+r.GetWorkerId(), "--provision_endpoint="+r.GetProvisionEndpoint().GetUrl(),
			"--logging_endpoint="+r.GetLoggingEndpoint().GetUrl(), "--control_endpoint="+at.control,
			"--artifact_endpoint="+r.GetArtifactEndpoint().GetUrl(), "--semi_persist_dir="+dir),
	}
	w.cmd.Stdout, w.cmd.Stderr, w.cmd.Dir, w.cmd.Env = os.Stdout, os.Stderr, dir, append(
		os.Environ(),
		"TMPDIR="+dir,
		EndsVariable+"=1",
	)
	if err := w.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return err
	}
	p.Log.Info("worker started", "id", at.id, "control", at.control, "process", w.cmd.Process.Pid)
	if p.running == nil {
		p.running = map[key]*process{}
	}
	p.running[at] = w
	p.ended.Add(1)
	go p.wait(at, w, dir)
	return nil
}

// wait waits for the end of a worker, and removes its files.
func (p *Pool) wait(at key, w *process, dir string) {
	defer p.ended.Done()
	err := w.cmd.Wait()
	p.Log.Info("worker ended", "id", at.id, "control", at.control, "process", w.cmd.Process.Pid, "how", err)
	if err := os.RemoveAll(dir); err != nil {
		p.Log.Warn("a worker's folder was not removed", "folder", dir, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[at] == w {
		delete(p.running, at)
	}
}

// StopWorker does nothing: a worker ends by itself when its TaskManager closes the connection, and
// the TaskManager does that first. Another TaskManager's worker may have the same name, and by now
// it may be the only one.
func (p *Pool) StopWorker(context.Context, *fnpb.StopWorkerRequest) (*fnpb.StopWorkerResponse, error) {
	return &fnpb.StopWorkerResponse{}, nil
}
