package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// A command keeps its temporary files in a folder of its own, tempPrefix and a random name, below
// the work folder. While it runs it holds a lock on the file tempOwner in there, which the system
// releases however the process ends; the file holds the machine's name, since a work folder may be
// shared by machines that do not see each other's locks.
const (
	tempPrefix = "minsep-"
	tempOwner  = ".minsep-owner"
)

// A tempFolder is a command's folder for temporary files, locked until it is removed or the
// process ends. On systems without such locks nobody can tell which command a folder belongs
// to, and a command has no such folder.
type tempFolder struct {
	path string
	lock io.Closer
}

// newTempFolder makes a folder below dir, or below the system's for temporary files if dir is "".
func newTempFolder(dir string) (*tempFolder, error) {
	temp, err := os.MkdirTemp(dir, tempPrefix)
	if err != nil {
		return nil, err
	}
	var lock io.Closer
	// The file has its name only once it is locked: a folder without it is nobody's to remove.
	unnamed := filepath.Join(temp, tempOwner+".new")
	if err = os.WriteFile(unnamed, []byte(thisMachine()), 0o600); err == nil {
		if lock, err = holdFile(unnamed); err == nil {
			err = os.Rename(unnamed, filepath.Join(temp, tempOwner))
		}
	}
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		os.RemoveAll(temp)
		return nil, err
	}
	return &tempFolder{path: temp, lock: lock}, nil
}

func (t *tempFolder) remove() {
	os.RemoveAll(t.path)
	t.lock.Close()
}

// clearTempFolders removes the folders that killed commands have left below dir. A folder that
// cannot be removed, or may be in use, stays.
func clearTempFolders(dir string, log *slog.Logger) {
	if dir == "" {
		dir = os.TempDir()
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		folder := filepath.Join(dir, e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), tempPrefix) || !abandoned(filepath.Join(folder, tempOwner)) {
			continue
		}
		if err := os.RemoveAll(folder); err == nil {
			log.Info("removed the temporary files of a command that was killed", "folder", folder)
		} else {
			log.Warn("could not remove the temporary files of a command that was killed", "folder", folder, "error", err)
		}
	}
}

func thisMachine() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return fmt.Sprintln(name)
}
