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
	folder := filepath.Join("run", "materialized")
	args := strings.Fields("materialize --run run --examples " + filepath.Join(b.dir, "examples.parquet") + " --pad 64 --shards 5 --key key --json --quiet --log-level info --log-format json --timeout " + jobLimit.String())
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
	if diff := gocmp.Diff(want, b.outcome(stdout, log, folder)); diff != "" || len(want.Files) != 7 {
		t.Errorf("%d files, -direct +flink:\n%s", len(want.Files), diff)
	}
}
