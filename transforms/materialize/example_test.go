package materialize_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/parquet-go/parquet-go"

	"minsep/manifest"
	"minsep/transforms/manifestio"
	"minsep/transforms/materialize"
)

// Examples 0 to 3 in the order of three steps, of which the second is empty.
func Example() {
	dir, err := os.MkdirTemp("", "materialize")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	batches, data := filepath.Join(dir, "batches"), filepath.Join(dir, "data.parquet")
	if err := formed(batches); err != nil {
		fmt.Println(err)
		return
	}
	type text struct {
		ID   int64  `parquet:"example_id"`
		Text string `parquet:"text"`
	}
	if err := parquet.WriteFile(data, []text{{3, "three"}, {1, "one"}, {0, "zero"}, {2, "two"}}); err != nil {
		fmt.Println(err)
		return
	}
	source, err := materialize.Data{Paths: []string{data}, IDColumn: "example_id"}.Open(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}

	p, s := beam.NewPipelineWithRoot()
	files, err := materialize.Write(s, materialize.Config{
		Batches: batches, Dir: dir, Shards: 1, Pad: 1, IDColumn: "example_id", KeyURI: keyFile, SharedDir: dir,
	}, source)
	if err != nil {
		fmt.Println(err)
		return
	}
	manifestio.Collect(s, dir, "files.json", files)
	if _, err := beam.Run(context.Background(), "direct", p); err != nil {
		fmt.Println(err)
		return
	}
	type entry struct {
		Step int32   `parquet:"step"`
		Slot int32   `parquet:"slot"`
		Row  int64   `parquet:"row"`
		Text *string `parquet:"text,optional"`
	}
	entries, err := parquet.ReadFile[entry](filepath.Join(dir, manifest.MaterializedName(0, 1)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range entries {
		fmt.Print(e.Step, " ", e.Slot, " ", e.Row)
		if e.Text != nil {
			fmt.Print(" ", *e.Text)
		}
		fmt.Println()
	}
	// Output:
	// 0 0 2 two
	// 1 0 -1
	// 2 0 3 three
}

// formed leaves batches of examples 2, none, and 3, as minsep form does.
func formed(dir string) error {
	stage, err := manifest.Begin(dir, true, false)
	if err != nil {
		return err
	}
	files, err := manifestio.BatchSink[int32]{Dir: dir, Shards: 1}.Write([]int64{0, 1, 1, 2}, []int32{2, 3})
	if err != nil {
		return err
	}
	params, digest, err := manifest.Params(struct{}{})
	if err != nil {
		return err
	}
	facts, err := json.Marshal(manifest.BatchesFacts{Examples: 4, Steps: 3, Shards: 1, RowType: manifest.DInt32, RowsOf: manifest.RowsOfRange})
	if err != nil {
		return err
	}
	return stage.Publish(manifest.Index{Format: manifest.BatchesFormat, Params: params, ParamsSHA256: digest, Facts: facts, Files: files})
}
