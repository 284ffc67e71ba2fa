package manifestio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/pipelines/manifest"
)

func init() {
	register.DoFn3x1[context.Context, int, func(*string) bool, error](&listFn{})
	register.Iter1[string]()
}

// listName is where a pipeline leaves the list of its files for the driver.
const listName = "files.json"

// ListFiles gathers what sinks wrote, a PCollection<string> of JSON [manifest.File], in a file of dir that [TakeFiles] reads
// when the pipeline has ended.
func ListFiles(s beam.Scope, dir string, files beam.PCollection) {
	s = s.Scope("manifestio.ListFiles")
	beam.ParDo0(s, &listFn{Dir: dir}, beam.GroupByKey(s, beam.AddFixedKey(s, files)))
}

type listFn struct{ Dir string }

func (f *listFn) ProcessElement(ctx context.Context, _ int, files func(*string) bool) error {
	var list []manifest.File
	var b string
	for files(&b) {
		var file manifest.File
		if err := json.Unmarshal([]byte(b), &file); err != nil {
			return fmt.Errorf("manifestio: list of files: %w", err)
		}
		list = append(list, file)
	}
	slices.SortFunc(list, func(a, b manifest.File) int { return strings.Compare(a.Name, b.Name) })
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := manifest.WriteFile(f.Dir, listName, manifest.SecretFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(list) })
	return err
}

// TakeFiles returns the files that the pipeline wrote to dir, by name, and removes their list.
func TakeFiles(dir string) ([]manifest.File, error) {
	path := filepath.Join(dir, listName)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("manifestio: the pipeline left no list of its files: %w", err)
	}
	var list []manifest.File
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("manifestio: list of files: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("manifestio: %w", err)
	}
	return list, nil
}
