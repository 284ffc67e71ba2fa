package pipelines

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/parquet-go/parquet-go"

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
	Values   []string // CSV, TSV and Parquet files, with a row for each example
	IDColumn string   // with the ids of the examples
	Ask      privacy.Statistics
}

// Validate reports every fault that can be seen without the files.
func (s Statistics) Validate() error {
	k := param.Checker{}
	k.Require(len(s.Values) > 0, "values", "none", "must name files with the values of the examples")
	k.Add(s.Ask.Validate())
	return k.Err()
}

func init() {
	beam.RegisterDoFn(reflect.TypeFor[valuesFn]())
	beam.RegisterFunction(numbered)
}

// Run releases the statistics, with a job of the runner.
func (s Statistics) Run(ctx context.Context, o Options) (privacy.Release, error) {
	none := privacy.Release{}
	w, err := o.begin(ctx, beginning{stage: s})
	if err != nil {
		return none, err
	}
	defer w.end()
	dir, err := store.Abs(w.dir.path)
	if err != nil {
		return none, err
	}
	run, err := manifest.ReadRun(ctx, dir)
	if err != nil {
		return none, err
	}
	var files []string
	for _, name := range s.Values {
		file, err := store.Abs(name)
		if err != nil {
			return none, err
		}
		if _, err := store.Stat(ctx, file); err != nil {
			return none, err
		}
		files = append(files, file)
	}
	p, scope := beam.NewPipelineWithRoot()
	training := adopt.Training(dir, "", run.RunID).(*transforms.Training)
	folder := store.Join(dir, manifest.BoundedFolder)
	examples, err := transforms.ReadTable(ctx, scope, training, folder)
	if err != nil {
		return none, err
	}
	read := &valuesFn{IDColumn: s.IDColumn, Statistics: s.Ask.Statistics}
	values := beam.ParDo(scope, read, beam.CreateList(scope, files))
	table, err := manifest.OpenBounded(ctx, folder)
	if err != nil {
		return none, err
	}
	if table.ExampleType.String() == "int64" {
		values = beam.ParDo(scope, numbered, values)
	}
	if _, err := transforms.Statistics(ctx, scope, s.Ask, examples, values); err != nil {
		return none, err
	}
	if err := w.jobs.run(ctx, p); err != nil {
		return none, err
	}
	return statistics.Read(ctx, dir, s.Ask.Name)
}

// numbered makes a number of an id.
func numbered(id string, v transforms.Value) (int64, transforms.Value, error) {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		err = errors.New("input: an id of the values is no integer, as those of the table are")
	}
	return n, v, err
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
	texts := map[string]bool{} // by column: whether its texts are counted
	for _, s := range f.Statistics {
		texts[s.Column] = texts[s.Column] || s.Kind == privacy.Counts
	}
	read := readCSV
	if strings.HasSuffix(name, ".parquet") || strings.HasSuffix(name, ".pq") {
		read = readParquet
	}
	number := 0
	err = read(file, name, func(row map[string]any) error {
		number++
		id := row[f.IDColumn]
		if id == nil || id == "" {
			return fmt.Errorf("row %d: has no %s", number, f.IDColumn)
		}
		for column, counted := range texts {
			cell, found := row[column]
			switch {
			case !found:
				return fmt.Errorf("has no column %q", column)
			case cell == nil || cell == "":
				continue
			}
			v := transforms.Value{Column: column, Text: fmt.Sprint(cell)}
			var err error
			if v.Number, err = strconv.ParseFloat(v.Text, 64); errors.Is(err, strconv.ErrSyntax) {
				if v.Number = math.NaN(); !counted {
					return fmt.Errorf("row %d: %s: is no number", number, column)
				}
			}
			emit(fmt.Sprint(id), v)
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("input: %s: %w", name, err)
	}
	return nil
}

// readCSV calls use for each record but the first, which has the names of the columns.
func readCSV(file store.File, name string, use func(row map[string]any) error) error {
	r := csv.NewReader(store.Text(file))
	if strings.HasSuffix(name, ".tsv") {
		r.Comma = '\t'
	}
	names, err := r.Read()
	row := map[string]any{}
	for err == nil {
		var record []string
		if record, err = r.Read(); err != nil {
			break
		}
		for i, column := range names {
			row[column] = record[i]
		}
		err = use(row)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// readParquet calls use for each row.
func readParquet(file store.File, _ string, use func(row map[string]any) error) error {
	f, err := parquet.OpenFile(file, file.Size())
	if err != nil {
		return err
	}
	r := parquet.NewGenericReader[map[string]any](f, f.Schema())
	defer r.Close()
	for rows := make([]map[string]any, 64); err == nil; {
		for i := range rows {
			rows[i] = map[string]any{}
		}
		var n int
		n, err = r.Read(rows)
		for _, row := range rows[:n] {
			if failed := use(row); failed != nil {
				return failed
			}
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}
