//go:build unix

package store

import "syscall"

// nonBlocking keeps the opening of a pipe without a writer from waiting for one. It changes nothing for regular files.
const nonBlocking = syscall.O_NONBLOCK
