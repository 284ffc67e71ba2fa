package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"minsep/internal/must"
)

// commandFolder holds the command that tests run, built when the first of them asks for it.
var commandFolder string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "minsep-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	commandFolder = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var builtCommand = sync.OnceValues(func() (bin string, err error) {
	bin = filepath.Join(commandFolder, "minsep")
	// The flags and the environment of make build and make wheels, so that all take what is compiled from one cache.
	build := exec.Command("go", "build", "-trimpath", "-tags=disable_grpc_modules", "-ldflags=-s -w", "-o", bin, "minsep/cmd/minsep")
	build.Dir, build.Env = "..", append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, os.Chmod(commandFolder, 0o755) // for other users too
})

// buildCommand returns the command of this commit, which is built once for all tests.
func buildCommand(t *testing.T) string {
	t.Helper()
	bin := must.Get(builtCommand())(t)
	return bin
}
