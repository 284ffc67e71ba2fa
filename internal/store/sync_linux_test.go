package store

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestContentsAreSynced: a file has its contents on the disk before it has its name.
func TestContentsAreSynced(t *testing.T) {
	var changes []string
	BeforeChange = func(kind, _ string) { changes = append(changes, kind) }
	defer func() { BeforeChange = nil }()
	err := WriteFile(t.Context(), filepath.Join(t.TempDir(), "log"), Options{Mode: 0o600}, []byte("line"))
	if want := []string{"open", "sync", "rename"}; err != nil || !slices.Equal(changes, want) {
		t.Errorf("%v, %v, want %v", changes, err, want)
	}
}

// TestNewFoldersAreSynced: the name of a folder that is made is safe in its parent, up to the first
// folder that was there before.
func TestNewFoldersAreSynced(t *testing.T) {
	var synced []string
	beforeSyncDir = func(dir string) { synced = append(synced, dir) }
	defer func() { beforeSyncDir = nil }()
	for name, make := range map[string]func(dir string) error{
		"MkdirAll": func(dir string) error { return MkdirAll(t.Context(), dir, 0o700) },
		"LockFolder": func(dir string) error {
			unlock, err := LockFolder(dir, "lock", 0o755, 0o644)
			if err == nil {
				unlock()
			}
			return err
		},
	} {
		top := t.TempDir()
		synced = nil
		if err := make(filepath.Join(top, "a", "run")); err != nil {
			t.Fatal(name, err)
		}
		if want := []string{filepath.Join(top, "a"), top}; !slices.Equal(synced, want) {
			t.Errorf("%s synced %v, not %v", name, synced, want)
		}
	}
}
