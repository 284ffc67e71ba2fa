//go:build unix

package store

import "syscall"

// nonBlocking makes opening a pipe without a writer return at once. It has no effect on regular
// files.
const nonBlocking = syscall.O_NONBLOCK

// noFollow makes opening fail if the name is a link. A file that is created or written in place
// must not be somewhere else.
const noFollow = syscall.O_NOFOLLOW
