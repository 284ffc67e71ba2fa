// Package graphio reads example–owner graphs from files: CSV and TSV edge lists, Parquet edge lists
// and Parquet with a list of owners, and plain lists of examples; text may be compressed with gzip or
// zstd.
//
// [Open] looks at every file, decides the type of the ids and reports all faults that it finds in
// one pass. [Source.Splits] then gives the files as units of work that travel as JSON, and [Split.Read]
// gives the edges of one as columnar batches.
//
// # Guarantee
//
// Ids are kept as given: no trimming, no change of case, no number read through a float. An
// owner that is written in two ways would be two owners, with twice the contribution, so
// nothing is guessed: a value that does not fit the type of its column, a number that is no
// plain integer, blanks around an id, an empty id, a first line that may or may not be a
// header, or an example without owners is a [Fault]. Nothing is left out in silence.
//
// A Fault names the file, the line or row group, the column and the rule, and says which kind
// of value was found; it never holds the value, since ids may be personal.
package graphio
