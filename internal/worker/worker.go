// Package worker starts this program as a worker of Beam's runners, by the contract between runners
// and containers (https://s.apache.org/beam-fn-api-container-contract), and serves a pool from
// which a runner takes workers (--environment_type=EXTERNAL). Beam has a program for both, which
// leaves the worker and its files behind when it is killed.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/artifact"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// EndsVariable is an environment variable. If it is set, to anything, a worker ends when its runner
// closes the connection. Beam's own workers wait then until they are ended, as containers are.
const EndsVariable = "MINSEP_WORKER_ENDS"

// Serve does the work of the worker with an id until its runner closes the connection. Beam must be
// initialised.
func Serve(ctx context.Context, id, logging, control string) error {
	if file := os.Getenv("PIPELINE_OPTIONS_FILE"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var options runtime.RawOptionsWrapper
		if err := json.Unmarshal(b, &options); err != nil {
			return fmt.Errorf("options of the pipeline: %w", err)
		}
		runtime.GlobalOptions.Import(options.Options)
	}
	return harness.MainWithOptions(grpcx.WriteWorkerID(ctx, id), logging, control, harness.Options{
		StatusEndpoint: os.Getenv(
			"STATUS_ENDPOINT",
		),
		RunnerCapabilities: strings.Fields(os.Getenv("RUNNER_CAPABILITIES")),
	})
}

// IsContract reports whether a command line comes from a runner that starts a container.
func IsContract(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(strings.TrimLeft(arg, "-"), "provision_endpoint") && strings.HasPrefix(arg, "-")
	})
}

// start has the arguments that a runner gives to a container.
type start struct{ id, logging, control, artifacts, provision, dir string }

// parse reads the arguments of a runner's call.
func parse(args []string) (s start, err error) {
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.id, "id", "", "")
	f.StringVar(&s.logging, "logging_endpoint", "", "")
	f.StringVar(&s.control, "control_endpoint", "", "")
	f.StringVar(&s.artifacts, "artifact_endpoint", "", "")
	f.StringVar(&s.provision, "provision_endpoint", "", "")
	f.StringVar(&s.dir, "semi_persist_dir", os.TempDir(), "")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.id == "" || s.provision == "" {
		return s, errors.New("a runner's call of a container must have --id and --provision_endpoint")
	}
	return s, nil
}

// complete adds the endpoints that the runner's provisioning names.
func (s *start) complete(info *fnpb.ProvisionInfo) error {
	for _, e := range []struct {
		name string
		to   *string
		said *pipepb.ApiServiceDescriptor
	}{
		{"logging", &s.logging, info.GetLoggingEndpoint()}, {"control", &s.control, info.GetControlEndpoint()}, {"artifact", &s.artifacts, info.GetArtifactEndpoint()},
	} {
		if url := e.said.GetUrl(); url != "" {
			*e.to = url
		}
		if *e.to == "" {
			return fmt.Errorf("the runner named no %s endpoint", e.name)
		}
	}
	return nil
}

// Main answers a runner's call of a container: it fetches the job's program, and becomes that
// program in this process. It returns only with an error.
func Main(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	ctx = grpcx.WriteWorkerID(ctx, s.id)
	info, err := tools.ProvisionInfo(ctx, s.provision)
	if err != nil {
		return fmt.Errorf("asking the runner at %s for worker %s: %w", s.provision, s.id, err)
	}
	if err := s.complete(info); err != nil {
		return err
	}
	options, err := tools.ProtoToJSON(info.GetPipelineOptions())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.dir, "minsep-worker-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "options.json")
	if err := os.WriteFile(file, []byte(options), 0o600); err != nil {
		return err
	}
	program, err := s.fetch(ctx, info, dir)
	if err != nil {
		return fmt.Errorf("fetching the program of worker %s: %w", s.id, err)
	}
	env := append(os.Environ(), "PIPELINE_OPTIONS_FILE="+file)
	if status := info.GetStatusEndpoint().GetUrl(); status != "" {
		env = append(env, "STATUS_ENDPOINT="+status)
	}
	if can := info.GetRunnerCapabilities(); len(can) > 0 {
		env = append(env, "RUNNER_CAPABILITIES="+strings.Join(can, " "))
	}
	return fmt.Errorf(
		"starting %s: %w",
		program,
		syscall.Exec(program, []string{
			program,
			"--worker=true",
			"--id=" + s.id,
			"--logging_endpoint=" + s.logging,
			"--control_endpoint=" + s.control,
			"--semi_persist_dir=" + s.dir,
		}, env),
	)
}

// fetch fetches the job's program into dir, and returns its path.
func (s start) fetch(ctx context.Context, info *fnpb.ProvisionInfo, dir string) (string, error) {
	wanted := programOf(info.GetDependencies())
	if wanted == nil {
		return "", fmt.Errorf("%d files, and none of them a program for Go's workers", len(info.GetDependencies()))
	}
	fetched, err := artifact.Materialize(
		ctx,
		s.artifacts,
		[]*pipepb.ArtifactInformation{wanted},
		info.GetRetrievalToken(),
		dir,
	)
	if err != nil {
		return "", err
	}
	if len(fetched) != 1 {
		return "", fmt.Errorf("%d files in place of one", len(fetched))
	}
	name, _ := artifact.MustExtractFilePayload(fetched[0])
	path := filepath.Join(dir, name)
	return path, os.Chmod(path, 0o700)
}

// programOf returns the worker's program among a job's files: the only file, or the one with that
// role.
func programOf(files []*pipepb.ArtifactInformation) *pipepb.ArtifactInformation {
	if len(files) == 1 {
		return files[0]
	}
	for _, f := range files {
		if f.GetRoleUrn() == artifact.URNGoWorkerBinaryRole {
			return f
		}
	}
	return nil
}
