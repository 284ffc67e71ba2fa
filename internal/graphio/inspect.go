package graphio

import (
	"context"
	"errors"
	"strconv"

	"minsep/internal/ownergraph"
	"minsep/internal/store"
)

// idType is the type of a column, if the file tells it.
type idType struct {
	known bool // there was a record, or a schema
	fixed bool // the format decides, not the option or the first record
	t     ownergraph.IDType
}

// inspected is a file that Open has looked at.
type inspected struct {
	split          Split
	size           int64
	readBytes      int64  // about how many of them reading takes
	compression    string // of text, "gzip" or "zstd"; "" for none
	example, owner idType
	records        bool
	header         bool // there is one, of the columns
}

// inspect finds out how to read a file.
func inspect(ctx context.Context, name string, number int, o *Options) (*inspected, *Fault) {
	fail := func(found, rule string) (*inspected, *Fault) {
		return nil, &Fault{File: name, Found: found, Rule: rule}
	}
	f, err := o.fs().Open(ctx, name)
	if errors.Is(err, store.ErrNotRegular) {
		return fail("not a regular file", "a graph is read more than once: copy it into one")
	}
	if err != nil {
		return nil, &Fault{File: name, Err: err}
	}
	defer f.Close()
	stamp, err := f.Stamp() // before anything is read: a later change shows against it
	if err != nil {
		return nil, &Fault{File: name, Err: err}
	}
	compression, begins, err := sniff(f)
	if err != nil {
		return nil, &Fault{File: name, Err: err}
	}
	// --format decides, then the name, then the first bytes. The first bytes have a veto: a Parquet
	// file read as text would give ids of rubbish.
	is, named := byName(name)
	if o.Format != "" && o.Format != Auto {
		is = formatNamed(o.Format)
	} else if is == nil {
		is = begins
	}
	switch {
	case is == nil:
		return fail("the name does not tell the format", nameRule())
	case is.magic != nil && begins != is:
		return fail("not a "+is.title+" file", is.magicRule+"; of a text, set --format "+eitherOf(namesOfTexts()))
	case begins != nil && begins != is:
		return fail("a "+begins.title+" file", "its name or --format says "+is.name+": set --format "+begins.name)
	case is.magic == nil && named != "" && named != compression:
		return fail("not a "+named+" file", "its name says that it is one")
	}
	in := &inspected{
		size:      f.Size(),
		readBytes: f.Size(),
		split: Split{
			Path:           name,
			Name:           name,
			Number:         number,
			Stamp:          stamp,
			Format:         is.name,
			SingleOwner:    o.SingleOwner,
			SkipOwnerless:  o.SkipOwnerless,
			RowIDs:         o.RowIDs,
			OwnerSeparator: o.OwnerSeparator,
		},
	}
	in.compression = compression
	if fault := is.look(in, f, o); fault != nil {
		fault.File = name
		return nil, fault
	}
	return in, nil
}

// firstType takes the type of a column from the first record. Later records must agree: a type that
// all records decide together would need a pass over every file before the job.
func firstType(c *idType, field []byte, option, column string) *Fault {
	if option != "" && option != Auto {
		return nil // decided, and checked with all other records
	}
	t, k := textType(field)
	if k != fits {
		return &Fault{Column: column, Found: k.String(), Rule: k.rule(ownergraph.String)}
	}
	*c = idType{known: true, t: t}
	return nil
}

// position returns the 0-based position that a column option gives, or -1 if it is empty or a name.
func position(option string) int {
	n, err := strconv.Atoi(option)
	if err != nil || n < 1 {
		return -1
	}
	return n - 1
}
