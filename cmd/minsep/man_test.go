package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"minsep/internal/must"
)

// TestManPages: each command has a page with all its flags.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if code := execute(t.Context(), []string{"man", dir}, io.Discard, os.Stderr); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	root := (&app{stdout: io.Discard}).command()
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		b := must.Get(os.ReadFile(filepath.Join(dir, "minsep-"+c.Name()+".1")))(t)
		page := bytes.ReplaceAll(b, []byte(`\-`), []byte("-"))
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if has := bytes.Contains(page, []byte(`\fB--`+f.Name+`\fP`)); has == f.Hidden {
				t.Errorf("minsep %s --%s: on the page: %v", c.Name(), f.Name, has)
			}
		})
	}
}
