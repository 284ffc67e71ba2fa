//go:build unix

package integration

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"minsep/internal/must"
)

// TestUserWithoutName: with the environment of the image, and built as make build does, the command
// runs under a user id that no file names.
func TestUserWithoutName(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may take another user id")
	}
	container := must.Get(os.ReadFile("../Containerfile"))(t)
	environment := regexp.MustCompile(`(?m)^ENV (.*)$`).FindSubmatch(container)
	if environment == nil {
		t.Fatal("the Containerfile sets no environment")
	}
	bin := buildCommand(t)
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
