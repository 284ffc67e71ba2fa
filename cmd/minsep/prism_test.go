package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
)

// Every pipeline, alone and in the run of a plan, on Prism, Beam's portable local runner, leaves the
// bytes and says what the direct runner does.
func TestPrism(t *testing.T) {
	p := newPlace(t, 5000)
	p.write("planned.json", plannedText)
	bench := func(args string) (stdout string, files map[string]string) {
		t.Helper()
		c := command(t, append(strings.Fields(args), "--run-id="+killedRunID, "--out", "out", "--json", "--quiet", "--work-dir", p.work)...)
		c.Dir = p.dir
		c.Env = append(os.Environ(), "GOMAXPROCS=16") // Prism's workers wait by spinning
		var stderr strings.Builder
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", args, err, &stderr)
		}
		p.clean("out")
		return string(out), hashes(t, filepath.Join(p.dir, "out"))
	}
	for table, how := range map[string]string{"graph": "--max-per-owner 3", "pools": "--pools 4"} {
		if _, files := bench("bound --graph graph.tsv --header no --key key " + how); len(files) < 3 {
			t.Fatalf("bound %s left %v", how, files)
		}
		must.Do(t, os.Rename(filepath.Join(p.dir, "out"), filepath.Join(p.dir, table)))
	}
	form := "form --bounded graph --key key --steps 64 --shards 3 --scheme "
	for i, args := range []string{
		"bound --graph graph.tsv --header no --max-per-owner 2 --key key --edges-in-memory 3",
		"bound --graph graph.tsv --header no --pools 4 --key key --edges-in-memory 3",
		"bound --graph graph.tsv --header no --max-per-owner 3 --duplicates --max-neighborhood 3 --key key",
		form + "b-min-sep --min-sep 4 --batch-size 20 --max-batch-size 22 --pad",
		form + "multi-owner --min-sep 4 --batch-size 20 --buckets 3",
		form + "fixed --min-sep 4 --batch-size 20 --max-participations 2",
		"form --bounded pools --scheme rotation --steps 64 --epoch-steps 16 --shards 3 --key key",
		"form --examples 5000 --scheme fixed --steps 64 --min-sep 4 --batch-size 20 --key key",
		"account --scheme b-min-sep --steps 64 --min-sep 4 --batch-size 20 --examples 3000 --bands 4 --epsilon 2 --delta 1e-3 --samples 20000",
		"noise --files --strategy strategy.json --noise-multiplier 2 --steps 64 --coordinates 3000 --shards 3 --key key",
		"run planned.json",
	} {
		direct, want := bench(args)
		must.Do(t, os.Rename(filepath.Join(p.dir, "out"), filepath.Join(p.dir, fmt.Sprint("direct", i))))
		prism, got := bench(args + " --runner prism")
		if diff := cmp.Diff(want, got); diff != "" || len(got) < 3 {
			t.Errorf("%s: %d files (-direct +prism):\n%s", args, len(got), diff)
		}
		measured := regexp.MustCompile(`"seconds": .*`) // how long a sample takes
		if diff := cmp.Diff(measured.ReplaceAllString(direct, ""), measured.ReplaceAllString(prism, "")); diff != "" {
			t.Errorf("%s: standard output (-direct +prism):\n%s", args, diff)
		}
		must.Do(t, os.RemoveAll(filepath.Join(p.dir, "out")))
	}
}
