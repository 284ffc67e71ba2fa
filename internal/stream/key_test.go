package stream

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNoKeyInTraceback ends a process in calls that have keys as arguments, with all goroutines in
// the traceback: it shows no three bytes of a key side by side.
func TestNoKeyInTraceback(t *testing.T) {
	const variable = "MINSEP_TEST_TRACEBACK"
	secret := []byte("never to be shown to anybody 123")
	root, err := ParseRoot(secret)
	if err != nil {
		t.Fatal(err)
	}
	key := root.Key(RunID{1}, [32]byte{2}, "traceback")
	if os.Getenv(variable) != "" {
		withKeys(key, root, NewChaCha(key), NewSource(key), NewBulk(key))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoKeyInTraceback$")
	cmd.Env = append(os.Environ(), variable+"=1", "GOTRACEBACK=all")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "withKeys(") {
		t.Fatalf("no traceback: %v\n%s", err, out)
	}
	for name, b := range map[string][]byte{"root": secret, "key": key.secret[:]} {
		if at := fmt.Sprintf("%#x, %#x, %#x", b[0], b[1], b[2]); strings.Contains(string(out), at) {
			t.Errorf("the traceback shows the %s: %s\n%s", name, at, out)
		}
	}
}

//go:noinline
func withKeys(key Key, root Root, sources ...any) {
	if key.Commitment() != root.Key(RunID{3}, [32]byte{}, "").Commitment() {
		panic(len(sources))
	}
}
