package graphio

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/words"
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
		return nil, &param.Error{
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
			whole, err := store.Abs(name)
			if err != nil {
				return nil, err
			}
			if seen[whole] { // a folder and a file in it, two patterns that overlap, or a.csv and ./a.csv
				continue
			}
			seen[whole] = true
			in, fault := inspect(ctx, name, len(seen), &o)
			isList := fault == nil && in.split.SingleOwner
			// A fault of a folder explains what the file lacks.
			if fault = cmp.Or(checkFolders(name, p, isList, &o), fault); fault != nil {
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
		in.split.AsIs = o.asIs()
		if s.SingleOwner {
			in.split.OwnerType = s.ExampleType
		}
		s.Bytes += in.size
		s.ReadBytes += in.readBytes
		s.splits = append(s.splits, in.split)
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
		o.exampleType(),
		func(in *inspected) idType { return in.example },
	)
	list = append(list, f...)
	s.OwnerType = s.ExampleType
	if !s.SingleOwner {
		s.OwnerType, f = agreeType(files, "owners", o.IDType, func(in *inspected) idType { return in.owner })
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
			case !fixed && t == ownergraph.String && of(decided).fixed: // and the first record is an integer, as strings may be
			default:
				f := &Fault{File: in.split.Path, Number: in.split.Number, Column: column, Found: c.t.String() + " ids"}
				f.Rule = "--id-type asks for int64, and the file stores them as strings: leave --id-type out, or set it to string"
				if !asked {
					f.Rule = fmt.Sprintf("must be %v as in %s, or set --id-type string", t, masked(decided.split.Path))
				}
				list = append(list, f)
			}
		}
	}
	return t, list
}

// Splits returns the units of work in the order of the files.
func (s *Source) Splits() []Split { return slices.Clone(s.splits) }

// Stamp identifies the state of the files: it differs after a change of one of them.
func (s *Source) Stamp() string {
	sum := sha256.New()
	for _, split := range s.splits {
		fmt.Fprintf(sum, "%q %q\n", split.Path, split.Stamp)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Digest is the SHA-256 of the SHA-256 of the files, in their order. A file that is no longer the
// one that was opened is a [Fault].
func (s *Source) Digest(ctx context.Context) (digest [sha256.Size]byte, err error) {
	all := sha256.New()
	for _, split := range s.splits {
		one, err := split.fileDigest(ctx, s.fs)
		if err != nil {
			return digest, err
		}
		all.Write(one)
	}
	return [sha256.Size]byte(all.Sum(nil)), nil
}

// explain adds to a fault of the columns of CSV or TSV the cause that the first records show: another
// delimiter, or a header with other names.
func (in *inspected) explain(f *Fault, between string, first [][]byte, rest *table, o *Options) {
	names, alone := headerNames(first), bytes.Clone(first[0]) // before the next record takes their place
	second, _, err := rest.next()
	if flag := otherDelimiter(alone, second); flag != "" && len(first) == 1 {
		f.Column, f.Found, f.Rule = "", "the fields are separated by another byte than by "+between, "set "+flag
		if o.Delimiter != "" {
			f.Found = "the fields are separated by another byte than by --delimiter"
		}
		if o.Delimiter != "" && flag == "--format "+in.split.Format {
			f.Rule = "leave --delimiter out: they are separated by " + between
		}
		return
	}
	isWord := func(field []byte) bool { _, k := parseInt(field); return k != fits }
	sure := o.Header == "yes" || err == nil && !slices.ContainsFunc(second, isWord) // that the first record is no data, which must not be shown
	for _, name := range names {
		sure = sure || slices.Contains(o.exampleNames(), name) || slices.Contains(o.ownerNames(), name)
	}
	if names != nil && sure && o.Header != "no" {
		f.Rule += "; the header has " + strings.Join(names, ", ")
	}
}

// Warnings returns what is odd about the graph: about its files, about the figures that it has before
// it is bounded, and about its ids, see [ownergraph.Graph.OddIDs].
func (s *Source) Warnings(
	ctx context.Context,
	figures ownergraph.Summary,
	oddIDs []string,
) (warnings []*Fault) {
	warn := func(found, rule string) {
		warnings = append(warnings, &Fault{File: s.splits[0].Path, Found: found, Rule: rule})
	}
	examples, owners := s.beginnings(ctx)
	if restarts(examples) {
		warn(
			"several files in which example ids begin alike",
			"rows with the same id are one example with all their owners: if each row of a file is an example of its own, set --row-ids, "+
				"which numbers rows across files; else make ids unique, unless they are meant so",
		)
	}
	if owners.mayDivide() {
		warn(
			fmt.Sprintf(
				"owner ids with %s between texts: %s of the first %s",
				quoted(owners.separator), words.Grouped(owners.divided), words.Grouped(owners.values),
			),
			"if they name several owners, these count as one: set --owner-separator "+quoted(owners.separator)+
				"; if each is one owner, set --owner-separator none",
		)
	}
	if figures.LooksSwapped() {
		warn(
			fmt.Sprintf(
				"%s owners of %s examples, up to %s of one example",
				words.Grouped(figures.Owners),
				words.Grouped(figures.Examples),
				words.Grouped(figures.GivenOwners.Most()),
			),
			"are the two columns exchanged? The claim protects owners: check --example-column and --owner-column",
		)
	}
	for _, text := range oddIDs {
		warn(text, "")
	}
	return warnings
}

// beginnings returns the example ids at the beginnings of the first files, in the order of their first
// edges, and what the owners there look like. Faults show when the graph is read.
func (s *Source) beginnings(ctx context.Context) (examples [][]string, owners joinedScan) {
	files := s.splits
	owners.off = files[0].OwnerSeparator != ""
	if len(files) == 1 && (owners.off || files[0].OwnerType == ownergraph.Int64) {
		return nil, owners
	}
	for _, file := range files[:min(mostBegun, len(files))] {
		var ids []string
		file.Read(ctx, s.fs, func(b *Batch) error {
			for i := range b.Examples.Len() {
				if id := b.Examples.Format(i); len(ids) == 0 || id != ids[len(ids)-1] {
					ids = append(ids, id)
				}
			}
			for i := range b.Owners.Len() {
				if b.Owners.Type == ownergraph.String || b.Owners.Type == ownergraph.Bytes && ownergraph.IsText(b.Owners.Bytes(i)) {
					owners.take(b.Owners.Bytes(i))
				}
			}
			if len(ids) < longestBeginning {
				return nil
			}
			return errEnough
		})
		if !file.RowIDs {
			examples = append(examples, ids)
		}
	}
	return examples, owners
}

// restarts reports whether the example ids of several files begin alike, as numbers of rows do that
// begin again in each file: with the same ids in the same order, or with all integers from 0 or from
// 1 on.
func restarts(files [][]string) bool {
	counts := map[int64]bool{}
	for i, ids := range files {
		for _, other := range files[:i] {
			if n := min(len(ids), len(other), BatchEdges); n >= fewestAlike && slices.Equal(ids[:n], other[:n]) {
				return true
			}
		}
		if from := max(countsFrom(ids[:min(len(ids), BatchEdges)]), countsFrom(ids)); from >= 0 {
			if counts[from] {
				return true
			}
			counts[from] = true
		}
	}
	return false
}

// fewestAlike is the number of equal example ids at the beginning of two files that is no chance.
const fewestAlike = 10

// countsFrom returns 0 or 1 if ids are all integers from there on, in any order, and -1 otherwise.
func countsFrom(ids []string) int64 {
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		v, k := parseInt([]byte(id))
		if k != fits {
			return -1
		}
		numbers[i] = v
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	n := len(numbers)
	if n < 2 || numbers[0] < 0 || numbers[0] > 1 || numbers[n-1]-numbers[0] != int64(n-1) {
		return -1
	}
	return numbers[0]
}
