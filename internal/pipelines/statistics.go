package pipelines

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/adopt"
	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/statistics"
	"minsep/internal/store"
	"minsep/privacy"
	"minsep/transforms"
)

// Statistics releases private statistics of the examples of a run directory's bounded table.
type Statistics struct {
	Values   []string // CSV and TSV files, with a row for each example
	IDColumn string   `flag:"id-column" help:"column of the files with the ids of the examples"` // with the ids of the examples
	Ask      privacy.Statistics
}

// Validate reports every fault that can be seen without the files.
func (s Statistics) Validate() error {
	k := param.Checker{}
	k.Require(len(s.Values) > 0, "values", "none", "must name files with the values of the examples")
	k.Add(s.Ask.Validate())
	return k.Err()
}

func init() { beam.RegisterDoFn(reflect.TypeFor[valuesFn]()) }

// Run releases the statistics, with a job of the runner.
func (s Statistics) Run(ctx context.Context, o Options) (r privacy.Release, err error) {
	w, err := o.begin(ctx, beginning{stage: s, besides: true})
	if err != nil {
		return r, err
	}
	defer w.end()
	dir, err := store.Abs(w.path)
	if err != nil {
		return r, err
	}
	run, err := manifest.ReadRun(ctx, dir)
	if err != nil {
		return r, err
	}
	var files []string
	for _, name := range s.Values {
		file, err := store.Abs(name)
		if err != nil {
			return r, err
		}
		if _, err := store.Stat(ctx, file); err != nil {
			return r, err
		}
		files = append(files, file)
	}
	p, scope := beam.NewPipelineWithRoot()
	training := adopt.Training(dir, "", run.RunID).(*transforms.Training)
	examples, err := transforms.ReadTable(ctx, scope, training, store.Join(dir, manifest.BoundedFolder))
	if err != nil {
		return r, err
	}
	read := &valuesFn{IDColumn: s.IDColumn, Statistics: s.Ask.Statistics}
	values := beam.ParDo(scope, read, beam.CreateList(scope, files))
	if _, err := transforms.Statistics(ctx, scope, s.Ask, examples, values); err != nil {
		return r, err
	}
	if err := w.jobs.run(ctx, p); err != nil {
		return r, err
	}
	return statistics.Read(ctx, dir, s.Ask.Name)
}

// valuesFn reads the columns of statistics from a file. Its errors name no value.
type valuesFn struct {
	IDColumn   string
	Statistics []privacy.Statistic
}

func (f *valuesFn) ProcessElement(ctx context.Context, name string, emit func(string, transforms.Value)) error {
	file, err := store.Open(ctx, name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := f.read(ctx, file, name, emit); err != nil {
		return fmt.Errorf("input: %s: %w", name, err)
	}
	return nil
}

func (f *valuesFn) read(ctx context.Context, file store.File, name string, emit func(string, transforms.Value)) error {
	names, next, err := recordsOf(file, name)
	if err != nil {
		return err
	}
	texts := map[string]bool{} // by column: whether its values may be no numbers
	for _, s := range f.Statistics {
		texts[s.Column] = texts[s.Column] || s.Kind == privacy.Counts
	}
	places := map[string]int{}
	for _, column := range append(slices.Collect(maps.Keys(texts)), f.IDColumn) {
		place := slices.Index(names, column)
		switch {
		case place < 0:
			return fmt.Errorf("has no column %q", column)
		case slices.Contains(names[place+1:], column):
			return fmt.Errorf("has two columns %q: must have one, or it is not known which of them counts", column)
		}
		places[column] = place
	}
	for row := 1; ctx.Err() == nil; row++ {
		record, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		id := record[places[f.IDColumn]]
		if id == "" {
			return fmt.Errorf("row %d: has no %s", row, f.IDColumn)
		}
		for column, isText := range texts {
			v := transforms.Value{Column: column, Text: record[places[column]]}
			if v.Text == "" {
				continue
			}
			if v.Number, err = strconv.ParseFloat(v.Text, 64); errors.Is(err, strconv.ErrSyntax) {
				if v.Number = math.NaN(); !isText {
					return fmt.Errorf("row %d: %s: is no number", row, column)
				}
			}
			emit(id, v)
		}
	}
	return ctx.Err()
}

// recordsOf returns the names of a file's columns, and a function that returns row after row, then
// io.EOF. What is not there is an empty text.
func recordsOf(file store.File, name string) (names []string, next func() ([]string, error), err error) {
	r := csv.NewReader(store.Text(file))
	if strings.HasSuffix(name, ".tsv") {
		r.Comma = '\t'
	}
	if names, err = r.Read(); errors.Is(err, store.ErrNotText) {
		err = fmt.Errorf("%w: must be CSV or TSV, as which other programs write a table", err)
	}
	return names, r.Read, err
}
