package ledger

import (
	"errors"
	"testing"

	"minsep/internal/must"
)

// TestUnitsOfAFailedWriteDoNotCount: units that are not stored are still missing, and make no
// certificate.
func TestUnitsOfAFailedWriteDoNotCount(t *testing.T) {
	l := create(t, t.TempDir())
	units := l.Missing(0, 400)
	must.Do(t, l.AddAll(one(units[0], compute(units[0]))))
	before := l.contents.trials[[2]int{0, 0}].done
	l.save = func() error { return errors.New("no space left") }
	entries := []Entry{{units[0], compute(units[0])}}
	for _, u := range units[1:] {
		entries = append(entries, Entry{u, compute(u)})
	}
	if err := l.AddAll(entries); err == nil {
		t.Fatal("a log without space takes units")
	}
	if after := l.contents.trials[[2]int{0, 0}].done; after != before {
		t.Errorf("%d samples count as done, and %d are stored", after, before)
	}
	if left := l.Missing(0, 400); len(left) != len(units)-1 || left[0] != units[1] {
		t.Errorf("missing are %d units, want the %d that are not stored", len(left), len(units)-1)
	}
	if tallies := l.Tallies(); len(tallies) != 0 {
		t.Errorf("%d trials are complete", len(tallies))
	}
}
