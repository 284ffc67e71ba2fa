package materialize

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
)

// FileColumn and BytesColumn are the columns of data that are files by name: the name of the file,
// and its contents.
const (
	FileColumn  = manifest.FileColumn
	BytesColumn = "bytes"
)

// namedRow is the row of an example that is a file.
type namedRow struct {
	File  string `parquet:"file"`
	Bytes []byte `parquet:"bytes"`
}

// namedData returns a Parquet file without rows that has the columns of files by name.
func namedData() (*parquet.File, error) {
	var b bytes.Buffer
	if err := parquet.Write[namedRow](&b, nil); err != nil {
		return nil, err
	}
	return parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
}

// Sizes of splits of files by name. A process reads the names of the whole folder, once or, if it
// does not remember them, for each task. So there are few splits, however large the folder is.
const (
	leastNamed = 1 << 10 // files of a split
	mostSplits = 1 << 6  // of a folder
)

// mostNamedBytes is the largest size of a file that becomes one row.
const mostNamedBytes = 128 << 20

// namedFile is a file named by the id of an example.
type namedFile struct {
	name string
	size int64
}

// names returns the names of a folder's files, in order, without hidden ones.
func names(ctx context.Context, folder string) (names []string, err error) {
	list, err := store.List(ctx, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &DataError{File: folder, Rule: "must be a folder of files named by the examples' ids"}
	}
	if err != nil {
		return nil, &DataError{File: folder, Err: err}
	}
	for _, e := range list {
		switch {
		case strings.HasPrefix(e.Name, ".") || strings.HasPrefix(e.Name, "_"):
		case e.Dir:
			return nil, &DataError{File: store.Join(folder, param.Printable(e.Name)), Rule: "is a folder: give each folder of files to --examples by itself, and no folder that holds others"}
		default:
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// mostListed is the number of names of files that a process remembers between its tasks.
const mostListed = 1 << 22

// listings has the names of folders that this process has listed, by their absolute paths: each
// task needs the names of a whole folder.
type listings struct {
	mutex   sync.Mutex // also while a folder is listed, so that tasks wait for one list
	folders map[string][]string
	count   int // of names
}

// listed is shared by the tasks of this process.
var listed listings

// names returns the names in a folder. It lists the folder if anew is set or the names are not
// remembered. remembered reports whether they were.
func (l *listings) names(ctx context.Context, folder string, anew bool) (all []string, remembered bool, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if all, remembered = l.folders[folder]; remembered && !anew {
		return all, true, nil
	}
	if all, err = names(ctx, folder); err == nil {
		l.keep(folder, all)
	}
	return all, false, err
}

// keep remembers the names of a folder. If all names together would be too many, it forgets the
// other folders.
func (l *listings) keep(folder string, all []string) {
	l.count += len(all) - len(l.folders[folder])
	if l.folders == nil || l.count > mostListed {
		l.folders, l.count = map[string][]string{}, len(all)
	}
	l.folders[folder] = all
}

// files returns the files of a split. They must be those that were there when the split was made.
func (s Split) files(ctx context.Context) ([]namedFile, error) {
	all, remembered, err := listed.names(ctx, s.Path, false)
	if err != nil {
		return nil, err
	}
	files, err := s.among(ctx, all)
	if err == nil || !remembered || ctx.Err() != nil {
		return files, err
	}
	if all, _, err = listed.names(ctx, s.Path, true); err != nil { // of another job, perhaps
		return nil, err
	}
	return s.among(ctx, all)
}

// among returns the files of a split, given the names of all files of its folder.
func (s Split) among(ctx context.Context, all []string) ([]namedFile, error) {
	if s.First+s.Groups > len(all) {
		return nil, s.changed()
	}
	files, stamp, err := sized(ctx, s.Path, all[s.First:s.First+s.Groups])
	if err == nil && stamp != s.Stamp {
		err = s.changed()
	}
	return files, err
}

// changed returns the error for a folder that is not as it was when the command began.
func (s Split) changed() error {
	return &DataError{File: s.Path, Rule: "was changed since the command began: wait until nothing writes to it, and repeat the command"}
}

// sized returns the files with their sizes, and a hash of names and sizes.
func sized(ctx context.Context, folder string, names []string) (files []namedFile, stamp string, err error) {
	sum := sha256.New()
	for _, name := range names {
		info, err := store.Stat(ctx, store.Join(folder, name))
		if err != nil {
			return nil, "", &DataError{File: store.Join(folder, param.Printable(name)), Err: err}
		}
		if info.Size > mostNamedBytes {
			return nil, "", &DataError{File: store.Join(folder, param.Printable(name)), Rule: fmt.Sprintf("has %d bytes: a file that becomes one row must have at most %d", info.Size, mostNamedBytes)}
		}
		files = append(files, namedFile{name, info.Size})
		sum.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(len(name))), uint64(info.Size)))
		sum.Write([]byte(name))
	}
	return files, hex.EncodeToString(sum.Sum(nil)), ctx.Err()
}

// openNamed opens folders of files by name.
func (d Data) openNamed(ctx context.Context) (*Source, error) {
	s := &Source{Columns: []string{FileColumn, BytesColumn}}
	var errs []error
	for _, folder := range d.Paths {
		if err := s.addNamed(ctx, folder, d.IDs); err != nil {
			errs = append(errs, err)
		}
	}
	if len(s.Splits) == 0 && errs == nil {
		return nil, &DataError{File: strings.Join(d.Paths, ", "), Rule: "has no files: their names must be the ids of the examples"}
	}
	return s, errors.Join(errs...)
}

// addNamed adds a folder of files by name, in splits.
func (s *Source) addNamed(ctx context.Context, folder string, want ownergraph.IDType) error {
	absolute, err := store.Abs(folder)
	if err != nil {
		return &DataError{File: folder, Err: err}
	}
	folder = absolute
	all, _, err := listed.names(ctx, folder, true)
	if err != nil {
		return err
	}
	each := max(leastNamed, (len(all)+mostSplits-1)/mostSplits)
	for first := 0; first < len(all); first += each {
		files, stamp, err := sized(ctx, folder, all[first:min(first+each, len(all))])
		if err != nil {
			return err
		}
		var ids ownergraph.IDs
		ids.Reset(want)
		for _, f := range files {
			if err := f.appendID(folder, &ids); err != nil {
				return err
			}
			s.Bytes += f.size + int64(len(f.name))
		}
		s.Files += len(files)
		s.Rows += int64(len(files))
		s.Splits = append(s.Splits, Split{Number: len(s.Splits), Path: folder, Stamp: stamp, First: first, Groups: len(files), Named: true})
	}
	return nil
}

// appendID appends the id of a file: its name without the last dot and the text after it.
func (f namedFile) appendID(folder string, ids *ownergraph.IDs) error {
	id := strings.TrimSuffix(f.name, path.Ext(f.name))
	if ids.Type != ownergraph.Int64 {
		if id == "" || len(id) > stream.MaxStringID {
			return &DataError{File: store.Join(folder, param.Printable(f.name)), Rule: fmt.Sprintf("its name must be the id of an example, of 1 to %d bytes, and an ending such as .txt", stream.MaxStringID)}
		}
		ids.AppendBytes([]byte(id))
		return nil
	}
	v, err := strconv.ParseInt(id, 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != id {
		return &DataError{File: store.Join(folder, param.Printable(f.name)), Rule: "its name must be the id of an example, an integer without leading zeros, and an ending such as .txt: the ids of the run's examples are integers; put other files elsewhere"}
	}
	ids.AppendInt(v)
	return nil
}

// eachNamed does the work of eachID for files by name.
func (s Split) eachNamed(ctx context.Context, want ownergraph.IDType, f func(first int, ids *ownergraph.IDs) error) error {
	files, err := s.files(ctx)
	if err != nil {
		return err
	}
	var ids ownergraph.IDs
	for first := 0; first < len(files); first += idRows {
		ids.Reset(want)
		for _, file := range files[first:min(first+idRows, len(files))] {
			if err := file.appendID(s.Path, &ids); err != nil {
				return err
			}
		}
		if err := f(first, &ids); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// namedReader reads files by name as rows.
type namedReader struct {
	split Split
	files []namedFile
}

// openNamedRows returns a reader of the files of a split.
func openNamedRows(ctx context.Context, split Split) (*namedReader, error) {
	files, err := split.files(ctx)
	return &namedReader{split, files}, err
}

// close has nothing to do: each file is read whole.
func (r *namedReader) close() error { return nil }

func (r *namedReader) append(ctx context.Context, dst []byte, row int) ([]byte, error) {
	if row >= len(r.files) {
		return dst, errRecord
	}
	f := r.files[row]
	name := store.Join(r.split.Path, f.name)
	content, err := store.ReadFile(ctx, name, max(1, f.size))
	if err != nil {
		return dst, &DataError{File: name, Err: err}
	}
	if int64(len(content)) != f.size {
		return dst, r.split.changed()
	}
	return appendRow(dst, parquet.Row{parquet.ValueOf(f.name).Level(0, 0, 0), parquet.ValueOf(content).Level(0, 0, 1)}), nil
}
