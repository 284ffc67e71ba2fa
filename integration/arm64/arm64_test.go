// Package arm64 runs, under emulation, the tests of the code that is written for arm64.
package arm64

import (
	"os"
	"os/exec"
	"testing"
)

// TestKernels compares the vector instructions of arm64 with portable Go, and noise, random words
// and losses with the values that are frozen, which other processors made.
func TestKernels(t *testing.T) {
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("qemu-aarch64 is not here: on Debian, as root, apt-get install qemu-user")
	}
	if testing.Short() {
		t.Skip("builds tests for another processor: not with -short")
	}
	cmd := exec.Command("go", "test", "-exec", qemu, "-timeout", "20m", "-run", "Agree|Between|ChaCha|Frozen(Vectors|Losses)|GoldenLosses",
		"./mechanism/noise", "./sampling/stream", "./accounting/montecarlo", "./accounting/montecarlo/internal/kernel")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
