package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// A command keeps its temporary files in a folder below the work folder, named tempPrefix and a
// random suffix. While it runs it holds a lock on the file tempOwner in that folder, which the
// system releases however the process ends. The file contains the machine's name: machines may
// share a work folder without seeing each other's locks.
const (
	tempPrefix = "minsep-"
	tempOwner  = ".minsep-owner"
)

// A tempFolder is a command's folder for temporary files, locked until it is removed or the process
// ends. Without such locks (on systems other than Unix) an abandoned folder cannot be told from one
// in use, so none is ever removed by another command.
type tempFolder struct {
	path string
	lock io.Closer
}

// newTempFolder makes a locked folder below dir, or below the system's temporary folder if dir is
// "".
func newTempFolder(dir string) (*tempFolder, error) {
	temp, err := os.MkdirTemp(dir, tempPrefix)
	if err != nil {
		return nil, err
	}
	var lock io.Closer
	// The file gets its name only once it is locked: a folder without it is never removed by
	// others.
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

// clearTempFolders removes the folders that killed commands left below dir. A folder that may be in
// use, or that cannot be removed, stays.
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
		// A folder without the file of its owner may be one that is being made right now.
		if !e.IsDir() || !strings.HasPrefix(e.Name(), tempPrefix) || !abandoned(filepath.Join(folder, tempOwner)) {
			continue
		}
		if err := os.RemoveAll(folder); err == nil {
			log.Info("removed the temporary files of a command that was killed", "folder", folder)
		} else {
			log.Warn(
				"could not remove the temporary files of a command that was killed",
				"folder",
				folder,
				"error",
				err,
			)
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
