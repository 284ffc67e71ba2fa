// Package manifestio moves a run directory's files in and out of Beam pipelines: it reads
// graphs and tables of examples into packed chunks, writes tables and batches, and brings a
// pipeline's reports back to the program that launched it.
//
// A task writes its file under a temporary name, syncs and renames it, so that a task that runs
// twice leaves one file; the index that makes a folder readable is the launching program's, when
// the pipeline has succeeded.
package manifestio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/manifest"
	"minsep/internal/store"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[collectFn]())
	beam.RegisterDoFn(reflect.TypeFor[lineFn]())
	register.Iter1[string]()
	register.Emitter1[string]()
}

// Collect writes the strings of a small PCollection<string> as a sorted JSON array to a temporary
// file in dir, from which [Collected] reads them in the launching program. None of the strings may
// be empty. (Metrics would not do: a retried task counts twice.) The file is written, even for no
// strings, once everything upstream is done: with some runners a cancelled job cannot be told from
// a finished one.
func Collect(s beam.Scope, dir, name string, lines beam.PCollection) {
	s = s.Scope("manifestio.Collect " + name)
	// An empty string makes sure that the file is written even if there are no lines.
	all := beam.Flatten(s, lines, beam.CreateList(s, []string{""}))
	beam.ParDo0(s, &collectFn{Dir: dir, Name: name}, beam.GroupByKey(s, beam.AddFixedKey(s, all)))
}

// ErrUnfinished means that a job ended, by itself or cancelled, before its work was done.
var ErrUnfinished = errors.New("the job ended before it was done, for example because it was cancelled")

// Lines turns a PCollection<[]byte> of texts into strings, for [Collect].
func Lines(s beam.Scope, texts beam.PCollection) beam.PCollection {
	return beam.ParDo(s, &lineFn{}, texts)
}

type lineFn struct{}

func (*lineFn) ProcessElement(text []byte, emit func(string)) { emit(string(text)) }

type collectFn struct{ Dir, Name string }

func (f *collectFn) ProcessElement(_ context.Context, _ int, lines func(*string) bool) error {
	var all []string
	for line := ""; lines(&line); {
		if line != "" {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	_, err := manifest.WriteFile(f.Dir, collectedName(f.Name), manifest.SecretFile, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(all)
	})
	return err
}

// collectedName returns a temporary name: readers of the folder ignore such a file if a process is
// killed and leaves it, and publishing the folder removes it.
func collectedName(name string) string { return store.TempPrefix + name }

// Collected returns the output of [Collect], and removes the file. A missing file is [ErrUnfinished].
func Collected(dir, name string) (lines []string, err error) {
	ctx, path := context.Background(), store.Join(dir, collectedName(name))
	b, err := store.ReadFile(ctx, path, 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: it left no %s", ErrUnfinished, name)
	}
	if err == nil {
		err = json.Unmarshal(b, &lines)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return lines, store.Remove(ctx, path)
}

// EmitFiles emits files for [CollectedFiles], in JSON.
func EmitFiles(files []manifest.File, emit func(string)) error {
	for _, file := range files {
		b, err := json.Marshal(file)
		if err != nil {
			return err
		}
		emit(string(b))
	}
	return nil
}

// CollectedFiles reads collected [manifest.File]s.
func CollectedFiles(dir, name string) (files []manifest.File, err error) {
	lines, err := Collected(dir, name)
	for _, line := range lines {
		var file manifest.File
		err = errors.Join(err, json.Unmarshal([]byte(line), &file))
		files = append(files, file)
	}
	return files, err
}
