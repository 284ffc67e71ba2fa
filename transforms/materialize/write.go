package materialize

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/packed"
	"minsep/manifest"
	"minsep/sampling"
	"minsep/transforms/manifestio"
	"minsep/transforms/progress"
)

// shards divides the steps into ranges of nearly equal size.
type shards struct {
	steps int
	done  []bool // by shard: its file is there
}

// newShards returns the shards of a configuration. A number in Done that is no shard is ignored.
func newShards(c Config, steps int) shards {
	s := shards{steps, make([]bool, c.Shards)}
	for _, shard := range c.Done {
		if shard >= 0 && shard < c.Shards {
			s.done[shard] = true
		}
	}
	return s
}

// of returns the shard of a step.
func (s shards) of(step int) int { return ((step+1)*len(s.done) - 1) / s.steps }

// rangeOf returns the steps of a shard: first to end-1.
func (s shards) rangeOf(shard int) (first, end int) {
	return manifest.ShardStart(s.steps, len(s.done), shard), manifest.ShardStart(s.steps, len(s.done), shard+1)
}

// splitsFn keys every split by its number.
type splitsFn struct{}

// ProcessElement emits the split as it is.
func (*splitsFn) ProcessElement(unit string, emit emitChunk) error {
	var split Split
	if err := json.Unmarshal([]byte(unit), &split); err != nil {
		return fmt.Errorf("materialize: split: %w", err)
	}
	emit(uint32(split.Number), []byte(unit))
	return nil
}

// readFn reads the rows of a split that take part, and emits them by shard with their places.
type readFn struct {
	Config Config

	shards shards
	packer *packed.Packer
}

// Setup divides the steps into shards.
func (f *readFn) Setup(ctx context.Context) error {
	batches, err := manifest.OpenBatches(ctx, f.Config.Batches)
	if err != nil {
		return err
	}
	f.shards = newShards(f.Config, batches.Facts.Steps)
	return nil
}

// StartBundle makes the packer of the bundle's chunks.
func (f *readFn) StartBundle(emitChunk) { f.packer = f.Config.packer(0, f.Config.Shards) }

func (f *readFn) ProcessElement(ctx context.Context, _ uint32, places, units func(*[]byte) bool, emit emitChunk) (err error) {
	var unit []byte
	var split Split
	if !units(&unit) {
		return errRecord
	}
	if err := json.Unmarshal(unit, &split); err != nil {
		return fmt.Errorf("materialize: split: %w", err)
	}
	sorted := packed.Sorter{Width: placeBytes, Dir: f.Config.TempDir}
	defer func() { err = errors.Join(err, sorted.Close()) }()
	if err := sorted.AddAll(places); err != nil {
		return err
	}
	if sorted.Len() == 0 {
		return nil
	}
	rows, err := openRows(ctx, split)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.close()) }()
	var record, values []byte
	at := -1 // the row of these values, or of their file
	return sorted.Each(func(p []byte) error {
		if row := int(binary.BigEndian.Uint32(p)); row != at {
			var err error
			if values, err = f.read(ctx, values[:0], rows, row); err != nil {
				return err
			}
			at = row
		}
		word := func(i int) int32 { return int32(binary.BigEndian.Uint32(p[i:])) }
		e := entry{word(12), word(16), int64(binary.BigEndian.Uint64(p[4:])), word(20)}
		if e.step < 0 || int(e.step) >= f.shards.steps {
			return errRecord
		}
		record = append(appendEntry(record[:0], e), values...)
		f.packer.Add(uint32(f.shards.of(int(e.step))), record, emit)
		return nil
	})
}

// read appends the values of a row, or the name of their file, with their mark.
func (f *readFn) read(ctx context.Context, dst []byte, rows rows, row int) ([]byte, error) {
	dst, err := rows.append(ctx, append(dst, valuesFollow), row)
	if err != nil || !f.Config.isLarge(dst[1:]) {
		return dst, err
	}
	return f.Config.appendLarge(ctx, nil, dst[1:])
}

// FinishBundle emits the chunks that are not full.
func (f *readFn) FinishBundle(emit emitChunk) error { return f.packer.Flush(emit) }

// shardsFn emits an empty chunk for each shard that is to be written, so that a shard without
// entries has a task too.
type shardsFn struct{ Config Config }

func (f *shardsFn) ProcessElement(_ []byte, emit emitChunk) {
	for shard, done := range newShards(f.Config, 1).done {
		if !done {
			emit(uint32(shard), nil)
		}
	}
}

// filesWritten counts files for the progress of the command.
var filesWritten = progress.New("files of examples written")

// writeFn writes the file of a shard.
type writeFn struct {
	Config Config
	First  Split // its file has the schema

	batches *manifest.Batches
	layout  layout
	shards  shards
}

// Setup makes the layout from the schema of the first file.
func (f *writeFn) Setup(ctx context.Context) (err error) {
	if f.batches, err = manifest.OpenBatches(ctx, f.Config.Batches); err != nil {
		return err
	}
	f.shards = newShards(f.Config, f.batches.Facts.Steps)
	if f.First.Named {
		data, err := namedData()
		if err != nil {
			return err
		}
		f.layout = newLayout(data, f.batches.OfOwners(), f.Config.Pad > 0)
		return f.layout.check()
	}
	d, err := openData(ctx, f.First.Path, f.First.Stamp)
	if err != nil {
		return err
	}
	f.layout = newLayout(d.File.File, f.batches.OfOwners(), f.Config.Pad > 0)
	return errors.Join(f.layout.check(), d.Close())
}

// ProcessElement sorts the entries of a shard, in temporary files if they are many, and writes its
// file.
func (f *writeFn) ProcessElement(ctx context.Context, shard uint32, chunks func(*[]byte) bool, emit func(string)) (err error) {
	sorted := packed.Sorter{Dir: f.Config.TempDir}
	defer func() { err = errors.Join(err, sorted.Close()) }()
	if err := sorted.AddAll(chunks); err != nil {
		return err
	}
	file, err := manifest.WriteFile(f.Config.Dir, manifest.MaterializedName(int(shard), f.Config.Shards), manifest.SecretFile, func(out io.Writer) error {
		w := newStepWriter(out, f.layout, f.Config.Pad)
		w.next, w.end = f.shards.rangeOf(int(shard))
		w.large.dir = f.Config.SharedDir
		err := sorted.Each(func(record []byte) error { return errors.Join(w.add(ctx, record), ctx.Err()) })
		return errors.Join(err, w.close())
	})
	if err != nil {
		return err
	}
	if err := note(f.Config.Dir, int(shard), file); err != nil {
		return err
	}
	filesWritten.Add(ctx, 1)
	return manifestio.EmitFiles([]manifest.File{file}, emit)
}

// stepWriter writes entries in the order of their steps and slots.
type stepWriter struct {
	layout layout
	pad    int
	//lint:ignore SA1019 its rows have no Go type: the schema is from the user's files
	out    *parquet.Writer
	row    parquet.Row
	values parquet.Row
	large  largeReader

	next, end int // the step that is being written, and the one after the last
	entries   int // of the step so far
	held      int // bytes of the row group so far, about
}

// A row group ends with a step if it has groupBytes, and within one if it has mostGroupBytes or
// after a row of dearRowBytes.
const (
	groupBytes     = 32 << 20
	mostGroupBytes = 4 * groupBytes
	dearRowBytes   = groupBytes / 2
)

// newStepWriter returns a writer of one file. Columns of texts and of unknown types have no least
// and largest values: these would be repeated on each page.
func newStepWriter(out io.Writer, l layout, pad int) *stepWriter {
	options := []parquet.WriterOption{l.schema, parquet.Compression(&parquet.Snappy),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending(StepColumn), parquet.Ascending(SlotColumn)))}
	for _, column := range l.unknown {
		options = append(options, parquet.SkipPageBounds(column.path...))
	}
	for _, path := range l.texts { // the least and the largest value of a page would be there six times more
		options = append(options, parquet.SkipPageBounds(path...), parquet.SkipPageStatistics(path...))
	}
	return &stepWriter{layout: l, pad: pad, out: parquet.NewWriter(out, options...)}
}

// add writes an entry.
func (w *stepWriter) add(ctx context.Context, record []byte) (err error) {
	e, rest, err := readEntry(record)
	if err != nil {
		return err
	}
	if int(e.step) < w.next || int(e.step) >= w.end {
		return errRecord
	}
	for w.next < int(e.step) {
		if err := w.endStep(); err != nil {
			return err
		}
	}
	values, err := w.large.values(ctx, rest)
	if err != nil {
		return err
	}
	if w.values, err = readRow(w.values[:0], values); err != nil {
		return err
	}
	return w.write(e, w.values, entryBytes+len(values))
}

// write writes a row, and ends the row group within a step if it has become too large.
func (w *stepWriter) write(e entry, values parquet.Row, bytes int) error {
	w.row = w.layout.add(w.row[:0], e, values)
	if _, err := w.out.WriteRows([]parquet.Row{w.row}); err != nil {
		return fmt.Errorf("materialize: %w", err)
	}
	w.entries++
	w.held += bytes
	switch {
	case bytes >= dearRowBytes:
		return w.flushDear()
	case w.held >= mostGroupBytes:
		return w.flush()
	}
	return nil
}

// flush ends the row group.
func (w *stepWriter) flush() error {
	w.held = 0
	return w.out.Flush()
}

// flushDear flushes. It frees the copies of a row that the library has made, and the buffers that
// it keeps for the next one in pools, which outlive one collection.
func (w *stepWriter) flushDear() error {
	err := w.flush()
	runtime.GC()
	runtime.GC()
	return err
}

// endStep fills the step up with padding, and goes on to the next step.
func (w *stepWriter) endStep() error {
	for w.pad > 0 && (w.entries == 0 || w.entries%w.pad != 0) {
		if err := w.write(entry{int32(w.next), int32(w.entries), sampling.PadRow, -1}, nil, entryBytes); err != nil {
			return err
		}
	}
	w.next++
	w.entries = 0
	if w.held >= groupBytes {
		return w.flush()
	}
	return nil
}

// close ends the steps that are left, and the file.
func (w *stepWriter) close() error {
	for w.next < w.end {
		if err := w.endStep(); err != nil {
			return err
		}
	}
	return w.out.Close()
}
