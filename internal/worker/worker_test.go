package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/artifact"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"minsep/internal/must"
)

// said is the variable that names the file to which the program of a test, this one, writes how it
// was started.
const said = "MINSEP_TEST_SAID"

func TestMain(m *testing.M) {
	file := os.Getenv(said)
	switch {
	case file == "":
		os.Exit(m.Run())
	case IsContract(os.Args[1:]) && os.Getenv("MINSEP_TEST_POOL") == "":
		fmt.Fprintln(os.Stderr, Main(context.Background(), os.Args[1:]))
		os.Exit(1)
	}
	options, _ := os.ReadFile(os.Getenv("PIPELINE_OPTIONS_FILE"))
	if err := os.WriteFile(file+".new", []byte(strings.Join(os.Args, " ")+"\n"+string(options)), 0o600); err != nil {
		os.Exit(1)
	}
	os.Rename(file+".new", file)
	if os.Getenv("MINSEP_TEST_POOL") != "" {
		time.Sleep(time.Hour) // until the pool ends it
	}
	os.Exit(0)
}

// runner is the part of a runner that a container talks to.
type runner struct {
	fnpb.UnimplementedProvisionServiceServer
	jobpb.UnimplementedArtifactRetrievalServiceServer
	info *fnpb.ProvisionInfo
	file []byte
}

func (r *runner) GetProvisionInfo(context.Context, *fnpb.GetProvisionInfoRequest) (*fnpb.GetProvisionInfoResponse, error) {
	return &fnpb.GetProvisionInfoResponse{Info: r.info}, nil
}

func (r *runner) ResolveArtifacts(_ context.Context, in *jobpb.ResolveArtifactsRequest) (*jobpb.ResolveArtifactsResponse, error) {
	return &jobpb.ResolveArtifactsResponse{Replacements: in.GetArtifacts()}, nil
}

func (r *runner) GetArtifact(_ *jobpb.GetArtifactRequest, to jobpb.ArtifactRetrievalService_GetArtifactServer) error {
	return to.Send(&jobpb.GetArtifactResponse{Data: r.file})
}

// serve serves until the test ends, and returns the address.
func serve(t *testing.T, register func(*grpc.Server)) string {
	l := must.Get(net.Listen("tcp", "localhost:0"))(t)
	s := grpc.NewServer()
	register(s)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// waitFor waits until a file is there, and returns it.
func waitFor(t *testing.T, file string) string {
	t.Helper()
	for {
		if b, err := os.ReadFile(file); err == nil {
			return string(b)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(file, "is not there")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestMainBecomesTheWorker: the job's program is fetched and started as a worker, with the job's
// options, in a folder that goes with it.
func TestMainBecomesTheWorker(t *testing.T) {
	own := must.Get(os.Executable())(t)
	file := filepath.Join(t.TempDir(), "said")
	t.Setenv(said, file)
	script := `#!/bin/sh
{ echo "$0" "$@"; cat "$PIPELINE_OPTIONS_FILE"; } > "$MINSEP_TEST_SAID.new" && mv "$MINSEP_TEST_SAID.new" "$MINSEP_TEST_SAID"
`
	payload := must.Get(proto.Marshal(&pipepb.ArtifactFilePayload{Path: "/staged/worker"}))(t)
	role := must.Get(proto.Marshal(&pipepb.ArtifactStagingToRolePayload{StagedName: "worker"}))(t)
	options := must.Get(structpb.NewStruct(map[string]any{"beam:option:job_name:v1": "job"}))(t)
	r := &runner{file: []byte(script)}
	address := serve(t, func(s *grpc.Server) {
		fnpb.RegisterProvisionServiceServer(s, r)
		jobpb.RegisterArtifactRetrievalServiceServer(s, r)
	})
	r.info = &fnpb.ProvisionInfo{PipelineOptions: options, ControlEndpoint: &pipepb.ApiServiceDescriptor{Url: "localhost:7"},
		LoggingEndpoint: &pipepb.ApiServiceDescriptor{Url: "localhost:8"}, ArtifactEndpoint: &pipepb.ApiServiceDescriptor{Url: address},
		Dependencies: []*pipepb.ArtifactInformation{{TypeUrn: artifact.URNFileArtifact, TypePayload: payload, RoleUrn: artifact.URNStagingTo, RolePayload: role}}}
	pool := &Pool{Program: own, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	answer, err := pool.StartWorker(t.Context(), &fnpb.StartWorkerRequest{WorkerId: "3", ProvisionEndpoint: &pipepb.ApiServiceDescriptor{Url: address}})
	if err != nil || answer.GetError() != "" {
		t.Fatal(answer.GetError(), err)
	}
	got := waitFor(t, file)
	for _, want := range []string{pool.Dir, "worker --worker=true --id=3 ", "--control_endpoint=localhost:7", "--logging_endpoint=localhost:8", `"beam:option:job_name:v1":"job"`} {
		if !strings.Contains(got, want) {
			t.Errorf("started as %q, which has no %q", got, want)
		}
	}
	pool.ended.Wait()
	if left, err := os.ReadDir(pool.Dir); err != nil || len(left) > 0 {
		t.Errorf("%d folders are left: %v", len(left), err)
	}
}

func TestIncomplete(t *testing.T) {
	for _, args := range []string{"--provision_endpoint=localhost:1", "--id=1 --provision_endpoint=", "--id=1 --provision_endpoint=x --unknown"} {
		if err := Main(t.Context(), strings.Fields(args)); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
	var s start
	must.Fail(t, "", "no control endpoint")(s.complete(&fnpb.ProvisionInfo{LoggingEndpoint: &pipepb.ApiServiceDescriptor{Url: "x"}}))
	if !IsContract([]string{"--id=1", "--provision_endpoint=x"}) || IsContract([]string{"plan", "provision_endpoint=x"}) {
		t.Error("a runner's call is not told from others")
	}
}

// TestPool starts workers of one name for two TaskManagers, and again for one of them. They end
// with the pool, and folders go with their workers.
func TestPool(t *testing.T) {
	own := must.Get(os.Executable())(t)
	t.Setenv("MINSEP_TEST_POOL", "yes")
	pool := &Pool{Program: own, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	l := must.Get(net.Listen("tcp", "localhost:0"))(t)
	served := make(chan error)
	go func() { served <- pool.Serve(ctx, l) }()
	cc := must.Get(grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer cc.Close()
	client := fnpb.NewBeamFnExternalWorkerPoolClient(cc)
	n := 0
	begin := func(id, control string) {
		t.Helper()
		n++
		file := filepath.Join(t.TempDir(), fmt.Sprint("said", n))
		t.Setenv(said, file)
		answer, err := client.StartWorker(t.Context(), &fnpb.StartWorkerRequest{WorkerId: id, ControlEndpoint: &pipepb.ApiServiceDescriptor{Url: control}})
		if err != nil || answer.GetError() != "" {
			t.Fatal(answer.GetError(), err)
		}
		if got := waitFor(t, file); !strings.Contains(got, "--id="+id+" ") || !strings.Contains(got, "--control_endpoint="+control) {
			t.Errorf("worker %s of %s was started as %q", id, control, got)
		}
	}
	processes := func() (pids []int) {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		for _, w := range pool.running {
			pids = append(pids, w.cmd.Process.Pid)
		}
		slices.Sort(pids)
		return pids
	}
	stop := func(id string) {
		t.Helper()
		if answer, err := client.StopWorker(t.Context(), &fnpb.StopWorkerRequest{WorkerId: id}); err != nil || answer.GetError() != "" {
			t.Fatal(answer.GetError(), err)
		}
	}
	begin("1", "first:1")
	begin("1", "second:1")
	before := processes()
	begin("1", "second:1") // in place of the one before
	after := processes()
	if len(before) != 2 || len(after) != 2 || slices.Equal(before, after) {
		t.Errorf("processes %v, then %v", before, after)
	}
	stop("1") // which of the two? Both go on
	if now := processes(); !slices.Equal(now, after) {
		t.Errorf("processes %v after a request to stop one of %v", now, after)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(pool.Dir); err != nil || len(left) > 0 || len(processes()) > 0 {
		t.Errorf("%d folders and processes %v are left: %v", len(left), processes(), err)
	}
	if answer, _ := pool.StartWorker(t.Context(), &fnpb.StartWorkerRequest{WorkerId: "1"}); !strings.Contains(answer.GetError(), "the pool is ending") {
		t.Errorf("after the end: %q", answer.GetError())
	}
}
