package graphio

import (
	"context"
	"errors"
)

// errEnough ends the reading of a file of which enough was seen.
var errEnough = errors.New("enough was seen of the file")

// mostBegun is the number of files whose beginnings are looked at, and longestBeginning about the
// number of example ids of each: files in another order than their ids have a range of them only if
// they are read whole.
const (
	mostBegun        = 16
	longestBeginning = 1 << 16
)

// numberRows sets the number of the first row of each file.
func numberRows(ctx context.Context, fs FS, splits []Split) error {
	next := int64(0)
	for i := range splits {
		s := &splits[i]
		s.FirstRow = next
		rows, err := s.rows(ctx, fs)
		if err != nil {
			return &Fault{File: s.Path, Number: s.Number, Err: err}
		}
		next += rows
	}
	return nil
}
