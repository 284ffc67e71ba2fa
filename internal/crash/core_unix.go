//go:build unix

package crash

import "syscall"

// noCore stops the operating system from writing a core file of this process.
func noCore() {
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}
