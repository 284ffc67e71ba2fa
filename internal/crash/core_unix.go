//go:build unix

package crash

import "syscall"

// noCore has the operating system write no core file.
func noCore() {
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}
