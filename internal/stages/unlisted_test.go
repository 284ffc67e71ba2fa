package stages

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/must"
)

// TestStrangers: whatever minsep leaves in a ledger belongs to the run, and nothing else does.
func TestStrangers(t *testing.T) {
	run := t.TempDir()
	aside := filepath.Join(manifest.EarlierFolder, strings.Repeat("0f", 32))
	put := func(names ...string) {
		for _, name := range names {
			path := filepath.Join(run, manifest.LedgerFolder, name)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)))
		}
	}
	put(manifest.RequestFile, ledger.ProtocolFile, ledger.UnitsFile, manifest.FinishedFolder+"/unit-0-1-2-3.json", ".minsep-tmp-x")
	for _, name := range append([]string{ledger.ProtocolFile, ledger.UnitsFile}, ClaimFiles...) {
		put(filepath.Join(aside, name))
	}
	if names, err := Strangers(t.Context(), run); names != nil || err != nil {
		t.Errorf("files of an account: %q, %v", names, err)
	}
	foreign := []string{"mine", filepath.Join(manifest.FinishedFolder, "mine"), filepath.Join(manifest.EarlierFolder, "mine"),
		filepath.Join(aside, manifest.RequestFile), "units.log.2"}
	put(foreign...)
	names, err := Strangers(t.Context(), run)
	for i := range foreign {
		foreign[i] = filepath.Join(manifest.LedgerFolder, foreign[i])
	}
	slices.Sort(names)
	slices.Sort(foreign)
	if err != nil || !slices.Equal(names, foreign) {
		t.Errorf("%q, %v, want %q", names, err, foreign)
	}
	elsewhere, finished := t.TempDir(), filepath.Join(run, manifest.LedgerFolder, manifest.FinishedFolder)
	must.Do(t, errors.Join(os.RemoveAll(finished), os.Symlink(elsewhere, finished)))
	names, err = Strangers(t.Context(), run)
	if want := filepath.Join(manifest.LedgerFolder, manifest.FinishedFolder); err != nil || !slices.Contains(names, want) {
		t.Errorf("a link: %q, %v, want %s too", names, err, want)
	}
}
