package pipelines

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"minsep/transforms"
)

// ErrInput says that the user's input is at fault; the message says how to mend it.
var ErrInput = errors.New("input")

// inputError has the faults of the input that tasks of a pipeline found.
type inputError struct{ faults []string }

// Error has one fault a line.
func (e *inputError) Error() string        { return strings.Join(e.faults, "\n") }
func (e *inputError) Is(target error) bool { return target == ErrInput }

// runnerError returns the useful part of a run's error: the faults of the input, or the error of
// the task: see [transforms.Fault].
func runnerError(runner string, err error) error {
	err = transforms.Fault(err)
	if input, ok := errors.AsType[*transforms.InputError](err); ok {
		return &inputError{input.Faults}
	}
	return fmt.Errorf("runner %s: %w", runner, err)
}

// fullDisks are the errors of a write that finds no room, or may write no more.
var fullDisks = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// fullDisk returns the one of fullDisks that err is, or nil. A runner with workers in other processes
// gives only the text.
func fullDisk(err error) error {
	for _, full := range fullDisks {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return full
		}
	}
	return nil
}

// withoutRoom replaces an error of a full disk by one that names the folder, and not the task of
// the pipeline that met it. left says which part of the result stays in the folder. Other errors
// stay as they are.
func withoutRoom(err error, folder, left string) error {
	full := fullDisk(err)
	if full == nil {
		return err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok { // temporary files may lie elsewhere
		folder = filepath.Dir(at.Path)
	}
	return fmt.Errorf("folder %s: %w: %s", folder, full, left)
}
