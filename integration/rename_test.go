package integration

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRename: after integration/rename-module every package of the three modules, and what it imports, is
// found under the new path, and none under the old one.
func TestRename(t *testing.T) {
	copied := t.TempDir()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, "../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "out" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(copied, name), 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(copied, name), b, info.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(copied, "integration", "rename-module"), "example.com/other").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list := exec.Command("go", "list", "-deps", "-test", "./...", "./examples/...", "./integration/...")
	list.Dir = copied
	var faults bytes.Buffer
	list.Stderr = &faults
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &faults)
	}
	renamed := 0
	for _, path := range strings.Fields(string(out)) {
		if strings.HasPrefix(path, "minsep/") {
			t.Errorf("%s has its old path", path)
		}
		if strings.HasPrefix(path, "example.com/other/") {
			renamed++
		}
	}
	if renamed < 60 {
		t.Errorf("only %d packages have the new path", renamed)
	}
}
