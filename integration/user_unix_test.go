//go:build unix

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestUserWithoutName: with the environment of the image, and built as make build does, the command
// runs under a user id that no file names.
func TestUserWithoutName(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may take another user id")
	}
	container, err := os.ReadFile("../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	environment := regexp.MustCompile(`(?m)^ENV (.*)$`).FindSubmatch(container)
	if environment == nil {
		t.Fatal("the Containerfile sets no environment")
	}
	dir, err := os.MkdirTemp("", "minsep-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "minsep")
	// The flags and the environment of make wheels, so that both take what is compiled from one cache.
	build := exec.Command("go", "build", "-trimpath", "-tags=disable_grpc_modules", "-ldflags=-s -w", "-o", bin, "minsep/cmd/minsep")
	build.Dir = ".."
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(env []string) ([]byte, error) {
		c := exec.Command(bin, "--version")
		c.Env = env
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		return c.CombinedOutput()
	}
	if out, err := run(strings.Fields(string(environment[1]))); err != nil {
		t.Errorf("with the image's environment: %v\n%s", err, out)
	}
	if _, err := run([]string{}); err == nil {
		t.Error("without USER and HOME the command runs too: then neither the image nor docs/deploy.md need them")
	}
}
