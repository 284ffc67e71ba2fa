package graphio

import (
	"strings"

	"minsep/internal/ownergraph"
	"minsep/internal/param"
)

// The formats of files. A one-column list is CSV or TSV with one column.
const (
	CSV     = "csv"     // RFC 4180; ids are kept byte by byte
	TSV     = "tsv"     // the same with tabs
	Parquet = "parquet" // flat columns, or owners as a list
)

// Auto lets the reader decide.
const Auto = "auto"

// Options say how to read a graph, in the flags of commands and in the fields of a plan. The zero
// value decides by the files' names and contents.
type Options struct {
	// Format of all files: CSV, TSV, Parquet. Empty or Auto: by the extension of each (.csv; .tsv,
	// .tab, .txt; .parquet, .pq), in front of .gz, .gzip, .zst, .zstd.
	Format string `json:"format,omitempty" flag:"format" help:"format of the graph's files: csv, tsv, parquet, or auto, by their names (default auto)"`
	// ExampleColumn and OwnerColumn say which columns: digits are a 1-based position, the rest a
	// name. Empty: "example_id", and "owner_id" or "owners", whichever is there; in text without
	// header, 1 and 2.
	ExampleColumn string `json:"example_column,omitempty" flag:"example-column" help:"name or 1-based position of the example column (default example_id)"`
	OwnerColumn   string `json:"owner_column,omitempty" flag:"owner-column" help:"name or 1-based position of the owner column (default owner_id or owners)"`
	// Delimiter between the fields of CSV and TSV: one byte. Empty: comma for CSV, tab for TSV.
	Delimiter string `json:"delimiter,omitempty" flag:"delimiter" help:"the byte between two columns (default: a comma in CSV files, a tab in TSV files)"`
	// Header says whether the first line of CSV and TSV names the columns: "yes", "no", or Auto or
	// empty. Auto: yes if it holds the names looked for, no if it has canonical integers there,
	// else a fault, since a header taken for an edge, or an edge for a header, would go unnoticed.
	Header string `json:"header,omitempty" flag:"header" help:"whether CSV and TSV files begin with a header: auto, yes, no (default auto)"`
	// IDType of both columns, or of owners with RowIDs: "int64", "string", or Auto or empty, which
	// takes the type of each column of the Parquet files or, without any, of the first records, which
	// must agree: int64 if it is a canonical integer (no sign +, no leading zeros, no -0), else string.
	// A string that could be another spelling of an id, a number or one with blanks around it, is then
	// a fault. "string" keeps ids as they are written, and reads integers of Parquet as their digits.
	IDType string `json:"id_type,omitempty" flag:"id-type" help:"type of all ids: auto, int64, or string, which keeps them as they are written (default auto)"`
	// OwnerSeparator divides each owner that is text into several, such as ";" in "ann;bob". Blanks
	// and quotes around each and brackets around all are left out. [NoSeparator]: each is one owner,
	// however it looks. Empty: text that looks like several owners is a fault.
	OwnerSeparator string `json:"owner_separator,omitempty" flag:"owner-separator" help:"what divides several owners in one value, such as ';'; none: each value is one owner, however it looks"`
	// SingleOwner reads examples only; each is its own owner. Lists of one column need not say so.
	SingleOwner bool `json:"-"`
	// SkipOwnerless leaves out examples without an owner (an empty or null list, a null, an empty
	// field), and counts them.
	// Otherwise they are faults.
	SkipOwnerless bool `json:"skip_ownerless,omitempty" flag:"skip-ownerless" help:"leave out examples without an owner, in place of refusing the graph"`
	// RowIDs makes each row an example, and the number of the row its id: from 0, across files in the
	// order in which they are given, and by name within a folder or pattern. A column of examples is
	// not read. Rows that are left out are counted too.
	RowIDs bool `json:"row_ids,omitempty" flag:"row-ids" help:"each row is an example: number the rows from 0 across files, in place of an example column"`
	// FS is where the files are. Nil: [Files].
	FS FS `json:"-"`
}

// Validate reports every fault.
func (o *Options) Validate() error {
	c := param.Checker{}
	oneOf := func(name, value string, allowed ...string) {
		rule, ok := "must be auto", value == "" || value == Auto
		for _, a := range allowed {
			rule += ", " + a
			ok = ok || value == a
		}
		c.Require(ok, name, value, rule)
	}
	oneOf("format", o.Format, Formats()...)
	oneOf("header", o.Header, "yes", "no")
	oneOf("id type", o.IDType, "int64", "string")
	d := o.Delimiter
	c.Require(
		len(d) == 0 || len(d) == 1 && d[0] != '"' && d[0] != '\n' && d[0] != '\r' && d[0] != 0,
		"delimiter",
		d,
		"must be one byte, and no quote, line end or NUL",
	)
	c.Require(
		!strings.ContainsAny(o.OwnerSeparator, "\"'[](){}"),
		"owner separator",
		o.OwnerSeparator,
		"must have no quote and no bracket",
	)
	c.Require(
		o.ExampleColumn == "" || o.ExampleColumn != o.OwnerColumn,
		"owner column",
		o.OwnerColumn,
		"must differ from the example column",
	)
	c.Require(
		!o.SingleOwner || o.OwnerColumn == "",
		"owner column",
		o.OwnerColumn,
		"must not be given with single owners",
	)
	c.Require(!o.RowIDs || !o.SingleOwner, "row ids", o.RowIDs, "must not be set with single owners")
	c.Require(
		!o.RowIDs || o.ExampleColumn == "",
		"example column",
		o.ExampleColumn,
		"must be left out with --row-ids",
	)
	return c.Err()
}

func (o *Options) fs() FS {
	if o.FS == nil {
		return Files{}
	}
	return o.FS
}

// asIs reports whether strings are asked for.
func (o *Options) asIs() bool { return o.IDType == ownergraph.String.String() }

// exampleType is the type of examples that is asked for. Numbers of rows have their own.
func (o *Options) exampleType() string {
	if o.RowIDs {
		return ""
	}
	return o.IDType
}

// exampleNames are the names that the example column may have.
func (o *Options) exampleNames() []string {
	if o.ExampleColumn != "" {
		return []string{o.ExampleColumn}
	}
	return []string{"example_id"}
}

// ownerNames are the names that the owner column may have; none of them with SingleOwner.
func (o *Options) ownerNames() []string {
	switch {
	case o.SingleOwner:
		return nil
	case o.OwnerColumn != "":
		return []string{o.OwnerColumn}
	}
	return []string{"owner_id", "owners"}
}
