package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"minsep/internal/param"
)

// TestPackages: errors may begin with the name of any package of this module, and messages leave it
// out.
func TestPackages(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		if name := f.Name.Name; name != "main" && !slices.Contains(packages, name) {
			t.Errorf("package %s is not in the list of those that messages leave out", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMessage(t *testing.T) {
	c := &cobra.Command{Use: "test"}
	c.Flags().Int("min-sep", 0, "")
	c.Flags().Int("max-per-owner", 0, "")
	c.Flags().Float64("prob", 0, "")
	c.Flags().String("key", "", "")
	c.Flags().String("out", "", "")
	if err := c.ParseFlags([]string{"--min-sep=-1", "--key=k"}); err != nil {
		t.Fatal(err)
	}
	bad := func(name string, value any) error {
		return &param.Error{Package: "pipelines", Param: name, Value: value, Rule: "must be so"}
	}
	inPlan := &param.Error{Package: "noiseshards", Param: "shards", Value: -3, Rule: "must be so", Field: "noise.shards"}
	for _, c2 := range []struct {
		err  error
		want string
	}{
		{bad("min-sep", -1), "--min-sep -1: must be so"},
		{bad("min sep", -1), "--min-sep -1: must be so"},
		{bad("max examples per owner", 0), "--max-per-owner is missing: must be so; 1 keeps one example of each owner, and takes the least noise"},
		{bad("max examples per owner", 3), "--max-per-owner 3: must be so"},
		{bad("min-sep and prob", nil), "--min-sep, --prob: must be so"},
		{bad("bound of a value", 3), "bound of a value 3: must be so"},
		{inPlan, "noise.shards -3: must be so"},
		{&param.Error{Package: "pipelines", Param: "key", Value: "k", Rule: "must be so", Field: "key"}, "--key k: must be so"},
		{&param.Error{Package: "stages", Param: "key", Value: "5", Rule: "must be a string", Field: "key"}, "key 5: must be a string"},
		{&param.Error{Package: "pipelines", Param: "out", Value: "o", Rule: "must be so", Field: "out"}, "out o: must be so"},
		{errors.Join(inPlan, bad("prob", 2)), "noise.shards -3: must be so\n--prob 2: must be so"},
		{fmt.Errorf("pipelines: %w: %w", bad("prob", 2), errors.New("mechanism: store: it is not")), "--prob 2: must be so: it is not"},
		{errors.New("pipelines: manifest: folder x: store: gone\nledger: y"), "folder x: gone\ny"},
		{errors.New("x/noise: it is there"), "x/noise: it is there"},
		{&param.Error{Package: "stages", Param: "noise", Rule: "must be so", Field: "noise"}, "noise: must be so"},
		{errors.Join(bad("min-sep and prob", nil), bad("prob", 2)), "--min-sep, --prob: must be so\n--prob 2: must be so"},
	} {
		if got := message(c, c2.err); got != c2.want {
			t.Errorf("%q became %q, want %q", c2.err, got, c2.want)
		}
	}
}
