package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"minsep/internal/ownergraph"
	"minsep/internal/store"
	"minsep/internal/strictjson"
)

// Bounded is an open folder with a bounded graph.
type Bounded struct {
	Dir                    string             // the folder
	Index                  *Index             // as it was read
	Digest                 Digest             // of the index
	Summary                ownergraph.Summary // the facts of the index
	Bound                  ownergraph.Bound   // the parameters of the index, which are not validated
	ExampleType, OwnerType ownergraph.IDType  // of all parts; without parts both are Int64 and mean nothing
	Rows                   int64              // of all files, at least 0
	Parts                  []BoundedFile      // in the order of their rows
}

// BoundedFile is a part of a bounded graph.
type BoundedFile struct {
	Name  string `json:"name"`  // within the folder
	First int64  `json:"first"` // number of its first row, from 0
	Rows  int64  `json:"rows"`  // at least 0
}

// OpenBounded opens a folder with a bounded graph. It checks the index, the sizes of the files and
// the footers of the parts, and reports every fault. It does not read the rows.
func OpenBounded(ctx context.Context, dir string) (*Bounded, error) {
	ix, err := Open(ctx, dir, BoundedFormat, BoundedPoolsFormat)
	if err != nil {
		return nil, err
	}
	b := &Bounded{Dir: dir, Index: ix}
	if b.Digest, err = DigestOf(ctx, dir); err != nil {
		return nil, err
	}
	if err := strictjson.Unmarshal(ix.Facts, &b.Summary); err != nil {
		return nil, Invalid(fmt.Errorf("%s: facts: %w", dir, err))
	}
	if err := strictjson.Loose(ix.Params, &b.Bound); err != nil {
		return nil, Invalid(fmt.Errorf("%s: params: %w", dir, err))
	}
	var faults Faults
	if (b.Bound.Pools > 0) != b.OfPools() {
		faults.add(fmt.Errorf("%s: its params do not fit its format", dir))
	}
	if (b.Summary.Coverage != nil) != b.OfPools() {
		faults.add(
			fmt.Errorf(
				"%s: format %s, with a coverage of pools in its facts: %v",
				dir,
				ix.Format,
				b.Summary.Coverage != nil,
			),
		)
	}
	if c := b.Summary.Coverage; c != nil && (c.Pools < 1 || c.Pools > ownergraph.MaxPools || c.Size < 0 || c.Size > b.Summary.Kept || len(c.BeforeCut) != c.Pools || len(c.Distinct) != c.Pools) {
		faults.add(fmt.Errorf("%s: the coverage of pools in its facts contradicts itself", dir))
	}
	for i, f := range ix.Files {
		if name := BoundedPartName(i); f.Name != name {
			faults.add(fmt.Errorf("%s: has the file %s where %s is expected", dir, f.Name, name))
			continue
		}
		part, err := openPartFile(ctx, dir, f.Name)
		if err != nil {
			faults.add(err)
			continue
		}
		if i == 0 {
			b.ExampleType, b.OwnerType = part.ExampleType, part.OwnerType
		}
		if part.ExampleType != b.ExampleType || part.OwnerType != b.OwnerType {
			faults.add(fmt.Errorf("%s: %s has ids of other types than the first part", dir, f.Name))
		}
		if part.Pools != b.OfPools() {
			faults.add(
				fmt.Errorf(
					"%s: %s has a column of pools: %v, where the format is %s",
					dir,
					f.Name,
					part.Pools,
					ix.Format,
				),
			)
		}
		b.Parts = append(b.Parts, BoundedFile{f.Name, b.Rows, part.Rows})
		b.Rows += part.Rows
		faults.add(part.close())
	}
	if faults == nil && b.Rows != b.Summary.Kept {
		faults.add(fmt.Errorf("%s: has %d rows, and the index says %d", dir, b.Rows, b.Summary.Kept))
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return b, nil
}

// OfPools reports whether the rows are in pools, as rotation needs them.
func (b *Bounded) OfPools() bool { return b.Index.Format == BoundedPoolsFormat }

// CopyFolder copies the finished folder of a stage to dir, byte for byte. dir must hold no finished
// result. A file that does not match the index is a [MismatchError]; after an error nothing of the
// copy is left.
func CopyFolder(ctx context.Context, from, dir string) (err error) {
	ix, err := Read(ctx, from)
	if err != nil {
		return err
	}
	index, err := store.ReadFile(ctx, store.Join(from, IndexName), maxIndex)
	if err != nil {
		return err
	}
	stage, err := Begin(dir, false)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stage.Abort())
		}
	}()
	for _, f := range ix.Files {
		written, err := WriteFileOf(
			dir,
			f.Name,
			PublicFile,
			f.Bytes,
			func(w io.Writer) error { return store.CopyTo(ctx, w, store.Join(from, f.Name)) },
		)
		if err != nil {
			return err
		}
		if written != f {
			return &MismatchError{f.Name, "SHA-256"}
		}
	}
	return stage.finish(index)
}

// Each calls use with all rows in order, at most size at a time: see [BoundedPart.Each].
func (b *Bounded) Each(ctx context.Context, owners bool, size int, use func(r *ownergraph.Rows) error) error {
	for _, f := range b.Parts {
		if err := f.Each(ctx, b.Dir, owners, size, use); err != nil {
			return err
		}
	}
	return nil
}

// partFile is an open part, with the function that closes its file.
type partFile struct {
	*BoundedPart
	close func() error
}

func openPartFile(ctx context.Context, dir, name string) (partFile, error) {
	f, err := store.Open(ctx, store.Join(dir, name))
	if err != nil {
		return partFile{}, err
	}
	p, err := OpenBoundedPart(f, f.Size())
	if err != nil {
		return partFile{}, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return partFile{p, f.Close}, nil
}

// Each reads the part, a file in dir, as [BoundedPart.Each] does. It also checks the number of
// rows.
func (f BoundedFile) Each(
	ctx context.Context,
	dir string,
	owners bool,
	size int,
	use func(r *ownergraph.Rows) error,
) error {
	p, err := openPartFile(ctx, dir, f.Name)
	if err != nil {
		return err
	}
	defer p.close()
	if p.Rows != f.Rows {
		return fmt.Errorf("%s: has %d rows, and the index says %d", f.Name, p.Rows, f.Rows)
	}
	err = p.Each(f.First, owners, size, use)
	if errors.Is(err, ErrTable) {
		err = fmt.Errorf("%s: %w", f.Name, err)
	}
	return err
}
