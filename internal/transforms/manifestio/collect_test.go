package manifestio

import (
	"errors"
	"os"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
)

func TestMain(m *testing.M) { ptest.MainWithDefault(m, "direct") }

func TestCollectBringsLinesBack(t *testing.T) {
	dir := t.TempDir()
	p, s := beam.NewPipelineWithRoot()
	Collect(s, dir, "files", beam.Create(s, `{"name":"b","bytes":2,"sha256":"`+zeros+`"}`, `{"name":"a","bytes":1,"sha256":"`+zeros+`"}`))
	must.Do(t, ptest.Run(p))
	files := must.Get(CollectedFiles(dir, "files"))(t)
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	if !cmp.Equal(names, []string{"a", "b"}) {
		t.Errorf("got %v", names)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if files, err := CollectedFiles(dir, "files"); !errors.Is(err, ErrUnfinished) || files != nil {
		t.Errorf("without a file: %v, %v", files, err)
	}
	p, s = beam.NewPipelineWithRoot()
	Collect(s, dir, "files", beam.ParDo(s, &lineFn{}, beam.CreateList(s, [][]byte{})))
	must.Do(t, ptest.Run(p))
	if files, err := CollectedFiles(dir, "files"); err != nil || files != nil {
		t.Errorf("without lines: %v, %v", files, err)
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
