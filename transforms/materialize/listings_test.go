package materialize

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"minsep/sampling/ownergraph"
)

// TestFoldersAreListedOnce: the tasks of a process remember the names of a folder, and list it anew
// where those are not of their job.
func TestFoldersAreListedOnce(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	write := func(id int) error { return os.WriteFile(filepath.Join(dir, fmt.Sprint(id)), []byte("x"), 0o600) }
	for id := range 5 * leastNamed / 2 {
		if err := write(id); err != nil {
			t.Fatal(err)
		}
	}
	data := Data{Paths: []string{dir}, IDs: ownergraph.Int64}
	open := func() *Source {
		t.Helper()
		source, err := data.openNamed(ctx)
		if err != nil || len(source.Splits) != 3 {
			t.Fatalf("%+v, %v", source, err)
		}
		return source
	}
	readable := func(s *Source) (err error) {
		for _, split := range s.Splits {
			_, fault := split.files(ctx)
			err = errors.Join(err, fault)
		}
		return err
	}
	before := open()
	old := listed.folders[dir]
	if err := write(-1); err != nil { // before all others in the order of names
		t.Fatal(err)
	}
	if err := readable(before); err != nil {
		t.Errorf("with names that are remembered: %v", err)
	}
	after := open()
	listed.keep(dir, old) // as a job before has left them
	if err := readable(after); err != nil {
		t.Errorf("with the names of a job before: %v", err)
	}
	if err := readable(before); err == nil {
		t.Error("a folder that was changed is read, with names that are its own now")
	}
}

// TestNamesThatAreRemembered are bounded.
func TestNamesThatAreRemembered(t *testing.T) {
	var l listings
	l.keep("a", make([]string, 3))
	l.keep("a", make([]string, 2))
	l.keep("b", make([]string, mostListed-2))
	if len(l.folders) != 2 || l.count != mostListed {
		t.Errorf("%d folders, %d names", len(l.folders), l.count)
	}
	l.keep("c", make([]string, 1))
	if len(l.folders) != 1 || len(l.folders["c"]) != 1 || l.count != 1 {
		t.Errorf("after one more: %d folders, %d names", len(l.folders), l.count)
	}
}
