package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// A command that is killed leaves its folder; the next one removes it, and no other.
func TestTempFolderOfKilledCommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10)
	account := slow[2]
	killed, _ := p.start(append(account.args, "--quiet")...)
	p.waitFor(account.file)
	left := p.folders()
	if len(left) != 1 {
		t.Fatalf("a command has the folders %v", left)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Wait()
	if again := p.folders(); len(again) != 1 || again[0] != left[0] {
		t.Fatalf("the test is of no use: the killed command left %v", again)
	}
	// Not to be removed: of a command that runs, of another machine, of a command that has not come
	// so far as to lock it, of others.
	other, err := newTempFolder(p.work)
	if err != nil {
		t.Fatal(err)
	}
	stay := []string{other.path}
	for name, file := range map[string]string{"minsep-elsewhere": tempOwner, "minsep-new": tempOwner + ".new", "minsep-theirs": "data", "mine": tempOwner} {
		folder := filepath.Join(p.work, name)
		text := "another machine\n"
		if name == "mine" {
			text = thisMachine()
		}
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stay = append(stay, folder)
	}
	c, stderr := p.start("bound", "--graph", "graph.tsv", "--header", "no", "--max-per-owner", "1", "--key", "key", "--out", "next", "--quiet")
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	now := map[string]bool{}
	for _, folder := range p.folders() {
		now[folder] = true
	}
	for _, folder := range stay {
		if !now[folder] {
			t.Errorf("%s was removed", folder)
		}
	}
	if now[left[0]] || len(now) != len(stay) {
		t.Errorf("the folder %s of a killed command: left are %v", left[0], now)
	}
}

// folders lists what is in the work folder.
func (p place) folders() (paths []string) {
	p.t.Helper()
	entries, err := os.ReadDir(p.work)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		paths = append(paths, filepath.Join(p.work, e.Name()))
	}
	return paths
}

// A link in place of a folder or of the file in it is not followed.
func TestTempFolderLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	file := filepath.Join(outside, tempOwner)
	if err := os.WriteFile(file, []byte(thisMachine()), 0o600); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, tempPrefix+"inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{outside: filepath.Join(dir, tempPrefix+"outer"), file: filepath.Join(inner, tempOwner)} {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	clearTempFolders(dir, slog.New(slog.DiscardHandler))
	for _, path := range []string{file, filepath.Join(inner, tempOwner)} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}
