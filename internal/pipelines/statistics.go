package pipelines

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
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
	columns := []string{f.IDColumn}
	texts := map[string]bool{} // columns of which texts are counted
	for _, s := range f.Statistics {
		columns = append(columns, s.Column)
		texts[s.Column] = texts[s.Column] || s.Kind == privacy.Counts
	}
	slices.Sort(columns[1:])
	columns = slices.Compact(columns)
	read := readCSV
	if strings.HasSuffix(name, ".parquet") || strings.HasSuffix(name, ".pq") {
		read = readParquet
	}
	row := 0
	err = read(file, name, columns, func(cells []string) error {
		row++
		if cells[0] == "" {
			return fmt.Errorf("row %d: %s: is empty", row, f.IDColumn)
		}
		for i, column := range columns[1:] {
			v := transforms.Value{Column: column, Text: cells[i+1]}
			if v.Text == "" {
				continue
			}
			number, err := strconv.ParseFloat(v.Text, 64)
			if v.Number = number; err != nil && !texts[column] {
				return fmt.Errorf("row %d: %s: is no number", row, column)
			}
			emit(cells[0], v)
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("input: %s: %w", name, err)
	}
	return nil
}

// places returns the positions of columns among names.
func places(names, columns []string) ([]int, error) {
	var at []int
	for _, column := range columns {
		i := slices.Index(names, column)
		if i < 0 {
			return nil, fmt.Errorf("has no column %q", column)
		}
		at = append(at, i)
	}
	return at, nil
}

// readCSV calls use with the cells of the columns of each record. The first record has the names.
func readCSV(file store.File, name string, columns []string, use func(cells []string) error) error {
	r := csv.NewReader(store.Text(file))
	if strings.HasSuffix(name, ".tsv") {
		r.Comma = '\t'
	}
	r.ReuseRecord = true
	names, err := r.Read()
	if err != nil {
		return err
	}
	at, err := places(names, columns)
	if err != nil {
		return err
	}
	cells := make([]string, len(columns))
	for {
		record, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for i, place := range at {
			cells[i] = record[place]
		}
		if err := use(cells); err != nil {
			return err
		}
	}
}

// readParquet calls use with the cells of the columns of each row, as texts; a null is empty.
func readParquet(file store.File, _ string, columns []string, use func(cells []string) error) error {
	f, err := parquet.OpenFile(file, file.Size())
	if err != nil {
		return err
	}
	place := map[int]int{} // by leaf of the file
	for i, column := range columns {
		leaf, found := f.Schema().Lookup(column)
		if !found || leaf.Node.Repeated() {
			return fmt.Errorf("has no column %q of single values", column)
		}
		place[leaf.ColumnIndex] = i
	}
	r := parquet.NewReader(f)
	defer r.Close()
	rows, cells := make([]parquet.Row, 256), make([]string, len(columns))
	for {
		n, err := r.ReadRows(rows)
		for _, row := range rows[:n] {
			clear(cells)
			for _, v := range row {
				if i, wanted := place[v.Column()]; wanted && !v.IsNull() {
					cells[i] = cellOf(v)
				}
			}
			if err := use(cells); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// cellOf returns a value as text: floats with all their digits.
func cellOf(v parquet.Value) string {
	switch v.Kind() {
	case parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case parquet.Float:
		return strconv.FormatFloat(float64(v.Float()), 'g', -1, 32)
	}
	return v.String()
}
