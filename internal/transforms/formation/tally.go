package formation

import (
	"encoding/binary"
	"fmt"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

// tally is a digest of a multiset of rows: their number, and the sum of their hashes. Sums do not
// depend on the order, so that each bundle sends 16 bytes.
type tally struct{ rows, sum uint64 }

// add adds encoded rows.
func (t *tally) add(rows []byte) error {
	first, n, err := ownergraph.RowRange(rows)
	for i := range uint64(n) {
		t.sum += packed.Mix(uint64(first) + i)
	}
	t.rows += uint64(n)
	return err
}

// emit emits the tally and begins another.
func (t *tally) emit(emit func([]byte)) {
	emit(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, t.rows), t.sum))
	*t = tally{}
}

// checkFn fails the pipeline unless each row came exactly once. It names no row.
type checkFn struct{}

func (*checkFn) ProcessElement(_ int, tallies func(*[]byte) bool, resolved side, emit func([]byte)) error {
	r, err := ReadResolved(resolved)
	if err != nil {
		return err
	}
	var got, want tally
	for b := []byte(nil); tallies(&b); {
		got.rows += binary.BigEndian.Uint64(b)
		got.sum += binary.BigEndian.Uint64(b[8:])
	}
	want.rows = uint64(r.Config.Examples)
	if got.rows == want.rows {
		for row := range want.rows {
			want.sum += packed.Mix(row)
		}
	}
	if got != want {
		return fmt.Errorf(
			"%d rows came in for a table of %d, some twice or not at all: a batch must not hold a row twice",
			got.rows,
			want.rows,
		)
	}
	emit([]byte{1})
	return nil
}
