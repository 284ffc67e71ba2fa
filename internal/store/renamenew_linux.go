package store

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew renames a file to a name that must not exist; if it does, the error wraps fs.ErrExist.
// ok is false if the file system does not support this.
func renameNew(from, to string) (ok bool, err error) {
	changing("rename", to)
	err = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return true, fault("rename", to, err)
}
