package graphio

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"minsep/internal/ownergraph"
)

// Source is a graph in files that [Open] has looked at.
type Source struct {
	ExampleType, OwnerType ownergraph.IDType // of the ids in every split
	SingleOwner            bool              // each example is its own owner
	Files                  int               // how many files there are, at least 1
	Bytes                  int64             // their size as stored, compressed or not
	ReadBytes              int64             // about how many of them reading takes: of Parquet, the columns looked for; at most Bytes

	fs     FS
	splits []Split
}

// Open looks at every file that the paths stand for (files, folders, patterns: see [FS]): its
// format and compression, the columns, the types of the ids and, for Parquet, the footer. It
// returns every fault that it finds, joined; those inside the files come to light in [Split.Read].
// A file named twice is read once.
func Open(ctx context.Context, paths []string, o Options) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, &ParamError{
			Param: "graph",
			Value: "(none)",
			Rule:  "must name at least one file, folder or pattern",
		}
	}
	var errs []error
	var files []*inspected
	seen := map[string]bool{}
	for _, p := range paths {
		names, err := o.fs().Expand(ctx, p)
		if err != nil {
			fault := &Fault{File: p, Err: err}
			if hint := meant(p); hint != "" && errors.Is(err, fs.ErrNotExist) {
				fault.Err = fmt.Errorf("%w: %s", err, hint)
			}
			errs = append(errs, fault)
			continue
		}
		for _, name := range names {
			if seen[name] { // a folder and a file in it, or two patterns that overlap
				continue
			}
			seen[name] = true
			in, fault := inspect(ctx, name, len(seen), &o)
			if fault == nil {
				fault = in.checkFolders(p, &o)
			}
			if fault != nil {
				fault.File, fault.Number = name, len(seen)
				errs = append(errs, fault)
				continue
			}
			files = append(files, in)
		}
	}
	s := &Source{fs: o.fs(), Files: len(files)}
	for _, f := range s.agree(files, &o) {
		errs = append(errs, f)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, in := range files {
		in.split.ExampleType, in.split.OwnerType = s.ExampleType, s.OwnerType
		in.split.ExampleAsIs, in.split.OwnerAsIs = asIs(o.ExampleType), asIs(o.OwnerType)
		if s.SingleOwner {
			in.split.OwnerType = s.ExampleType
		}
		s.Bytes += in.size
		s.ReadBytes += in.whole.readBytes(in.size)
		splits, err := in.splits(ctx, &o)
		if err != nil {
			return nil, &Fault{File: in.split.Path, Number: in.split.Number, Err: err}
		}
		s.splits = append(s.splits, splits...)
	}
	if o.RowIDs {
		return s, numberRows(ctx, s.fs, s.splits)
	}
	return s, nil
}

// agree decides the types for all files, and reports the files that cannot be read with them.
func (s *Source) agree(files []*inspected, o *Options) []*Fault {
	// Files without records, as some jobs write for empty shards, decide nothing.
	given := files
	files = slices.DeleteFunc(slices.Clone(files), func(in *inspected) bool { return !in.records })
	if len(files) == 0 {
		if s.Files == 0 {
			return nil // each has had its fault
		}
		return []*Fault{nothing(given)}
	}
	s.SingleOwner = files[0].split.SingleOwner
	var list []*Fault
	for _, in := range files {
		if in.split.SingleOwner != s.SingleOwner {
			list = append(
				list,
				&Fault{
					File:   in.split.Path,
					Number: in.split.Number,
					Found:  "only one of this file and " + masked(files[0].split.Path) + " has owners",
					Rule:   "give only files with owners, or only files without",
				},
			)
		}
	}
	var f []*Fault
	s.ExampleType, f = agreeType(
		files,
		"examples",
		o.ExampleType,
		func(in *inspected) idType { return in.example },
	)
	list = append(list, f...)
	s.OwnerType = s.ExampleType
	if !s.SingleOwner {
		s.OwnerType, f = agreeType(files, "owners", o.OwnerType, func(in *inspected) idType { return in.owner })
		list = append(list, f...)
	}
	return list
}

// nothing is the fault of files without a record.
func nothing(files []*inspected) *Fault {
	f := &Fault{
		Found: "no record in any file",
		Rule:  "a graph needs at least one edge, such as the line 7,alice under the header example_id,owner_id",
	}
	if len(files) != 1 {
		return f
	}
	f.File, f.Number = files[0].split.Path, files[0].split.Number
	switch {
	case files[0].size == 0:
		f.Found = "the file is empty"
	case files[0].header:
		f.Found = "a header, and no record under it"
	default:
		f.Found = "no record in the file"
	}
	return f
}

// agreeType decides the type of one column: by the formats that have types, else by the option,
// else by the first record of the first text file.
func agreeType(
	files []*inspected,
	column, option string,
	of func(*inspected) idType,
) (t ownergraph.IDType, list []*Fault) {
	var decided *inspected
	asked := option != "" && option != Auto
	if asked {
		t.UnmarshalText([]byte(option)) // Validate has seen it
	}
	// First the files with types of their own, as Parquet has: they cannot be read otherwise, while
	// a text can be read as either type.
	for _, fixed := range []bool{true, false} {
		for _, in := range files {
			c := of(in)
			if !c.known || c.fixed != fixed {
				continue
			}
			switch {
			case decided == nil && !asked:
				t, decided = c.t, in
			case c.t == t:
			case asked && t == ownergraph.String: // integers are read as their digits
			case !fixed && t == ownergraph.String && decided.fixes(of): // and the first record is an integer, as strings may be
			case asked:
				list = append(
					list,
					&Fault{
						File:   in.split.Path,
						Number: in.split.Number,
						Column: column,
						Found:  c.t.String() + " ids",
						Rule:   "--id-type asks for int64, and the file stores them as strings: leave --id-type out, or set it to string",
					},
				)
			default:
				list = append(
					list,
					&Fault{
						File:   in.split.Path,
						Number: in.split.Number,
						Column: column,
						Found:  c.t.String() + " ids",
						Rule: fmt.Sprintf(
							"must be %v as in %s, or set --id-type string",
							t,
							masked(decided.split.Path),
						),
					},
				)
			}
		}
	}
	return t, list
}

// fixes reports whether the format of a file stores the type of a column.
func (in *inspected) fixes(of func(*inspected) idType) bool { return of(in).fixed }

// asIs reports whether the option asks for strings.
func asIs(option string) bool { return option == ownergraph.String.String() }

// Splits returns the units of work in the order of the files.
func (s *Source) Splits() []Split { return slices.Clone(s.splits) }

// Read reads the whole graph, split by split in order, as [Split.Read] does.
func (s *Source) Read(ctx context.Context, emit func(*Batch) error) error {
	var errs []error
	for i := range s.splits {
		err := s.splits[i].Read(ctx, s.fs, func(b *Batch) error {
			if len(errs) > 0 {
				return nil // only faults are looked for, so that one run finds several
			}
			return emit(b)
		})
		if err == nil {
			continue
		}
		errs = append(errs, err)
		if _, ok := errors.AsType[*Fault](err); !ok || len(errs) == MaxFaults {
			break
		}
	}
	return errors.Join(errs...)
}

// Stamp identifies the state of the files: it differs after a change of one of them.
func (s *Source) Stamp() string {
	sum := sha256.New()
	for _, split := range s.firsts() {
		fmt.Fprintf(sum, "%q %q\n", split.Path, split.Stamp)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Digest is the SHA-256 of the SHA-256 of the files, in their order. A file that is no longer the
// one that was opened is a [Fault].
func (s *Source) Digest(ctx context.Context) (digest [sha256.Size]byte, err error) {
	all := sha256.New()
	for _, split := range s.firsts() {
		one, err := split.fileDigest(ctx, s.fs)
		if err != nil {
			return digest, err
		}
		all.Write(one)
	}
	return [sha256.Size]byte(all.Sum(nil)), nil
}

// fileDigest is the SHA-256 of the whole file.
func (s *Split) fileDigest(ctx context.Context, fs FS) ([]byte, error) {
	f, err := fs.Open(ctx, s.Path)
	if err != nil {
		return nil, &Fault{File: s.Path, Number: s.Number, Err: err}
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, f.Size())); err != nil {
		return nil, &Fault{File: s.Path, Number: s.Number, Err: cause(err)}
	}
	return sum.Sum(nil), s.unchanged(f)
}

// firsts returns the first split of each file.
func (s *Source) firsts() (list []Split) {
	for i, split := range s.splits {
		if i == 0 || s.splits[i-1].Path != split.Path {
			list = append(list, split)
		}
	}
	return list
}

// splits divides a file.
func (in *inspected) splits(ctx context.Context, o *Options) (list []Split, err error) {
	parts, err := in.whole.parts(ctx, in, o)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		s := in.split
		if s.Part, err = json.Marshal(p); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}
