package flink_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"minsep/integration/flink"
)

// TestMaterialize joins examples with batches on Flink and compares with the direct runner.
func TestMaterialize(t *testing.T) {
	k := loopback(t)
	b := newBench(t)
	type example struct {
		ExampleID int64  `parquet:"example_id"`
		Text      string `parquet:"text"`
	}
	var rows []example
	for id := range int64(100_000) {
		rows = append(rows, example{99_999 - id, strings.Repeat(fmt.Sprint(id), 50)})
	}
	var data bytes.Buffer
	if err := parquet.Write(&data, rows, parquet.MaxRowsPerRowGroup(20_000)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "examples.parquet"), data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	b.must(strings.Fields("form --examples 100000 --scheme b-min-sep --steps 100 --min-sep 4 --batch-size 2000 --shards 3 --key key --out run --quiet")...)
	compare(t, b, k, "run", 7, "--examples", filepath.Join(b.dir, "examples.parquet"), "--pad", "64")
}

// TestMaterializeByName joins files by name, of several splits, on Flink.
func TestMaterializeByName(t *testing.T) {
	k := loopback(t)
	b := newBench(t)
	folder := filepath.Join(b.dir, "files")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for id := range 3000 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.txt", id)), bytes.Repeat([]byte{byte(id)}, id%50), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.must(strings.Fields("form --examples 3000 --scheme b-min-sep --steps 100 --min-sep 4 --batch-size 60 --shards 3 --key key --out run --quiet")...)
	compare(t, b, k, "run", 7, "--examples", folder, "--by-name")
}

// compare materializes on the direct runner and on Flink, and compares what both left.
func compare(t *testing.T, b *bench, k *flink.Cluster, run string, files int, data ...string) {
	t.Helper()
	folder := filepath.Join(run, "materialized")
	args := append(strings.Fields("materialize --run "+run+" --shards 5 --key key --json --quiet --log-level info --log-format json --timeout "+jobLimit.String()), data...)
	stdout, log, err := b.command(nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	want := b.outcome(stdout, log, folder)
	if err := os.RemoveAll(filepath.Join(b.dir, folder)); err != nil {
		t.Fatal(err)
	}
	if stdout, log, err = b.command(k, append(args, k.Flags(2)...)...); err != nil {
		t.Fatal(err)
	}
	b.emptyTemp()
	if diff := gocmp.Diff(want, b.outcome(stdout, log, folder)); diff != "" || len(want.Files) != files {
		t.Errorf("%d files, -direct +flink:\n%s", len(want.Files), diff)
	}
}
