package ledger

import (
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/internal/store"
)

// TestUnitsAreSafe: when AddAll returns, each line of the log was synced after it was written.
func TestUnitsAreSafe(t *testing.T) {
	l := must.Get(Create(t.TempDir(), protocol(t)))(t)
	defer l.Close()
	var changes []string
	store.BeforeChange = func(kind, _ string) { changes = append(changes, kind) }
	defer func() { store.BeforeChange = nil }()
	var entries []Entry
	for _, u := range l.Missing(1, 200)[:3] {
		entries = append(entries, Entry{u, compute(u)})
	}
	must.Do(t, l.AddAll(entries))
	if want := []string{"append", "sync", "append", "sync", "append", "sync"}; !slices.Equal(changes, want) {
		t.Errorf("the log was changed by %v, want %v", changes, want)
	}
}
