// Package crash keeps a program that fails by its own fault from exiting with code 2: Go's runtime
// uses that code for a crash, and minsep uses it for bad input.
//
// [Guard] catches a panic of the main goroutine. Go lets nobody catch other failures: memory that
// ran out, a stack overflow, a panic in a library's goroutine. After [Begin] these end the process
// by SIGABRT, which a shell shows as 134.
package crash

import (
	"fmt"
	"io"
	"runtime/debug"
)

// ExitCode is the exit code of a program that failed by its own fault.
const ExitCode = 1

// Begin makes the runtime end the process by SIGABRT where it would exit with 2. No core file is
// written, since it would contain keys.
func Begin() {
	noCore()
	debug.SetTraceback("crash")
}

// Guard returns the result of run. If run panics, Guard reports the panic on w, with its stack and
// how to report the fault, and returns [ExitCode].
func Guard(w io.Writer, run func() int) (code int) {
	defer func() {
		if v := recover(); v != nil {
			report(w, v)
			code = ExitCode
		}
	}()
	return run()
}

// report shows the kind of a panic and its stack. Only the message of a runtime error is shown: any
// other value may contain records or keys.
func report(w io.Writer, v any) {
	what := fmt.Sprintf("%T", v)
	if e, ok := v.(interface{ RuntimeError() }); ok {
		what = fmt.Sprint(e)
	}
	fmt.Fprintf(w, "minsep: a fault of the program, not of the input: panic: %s\n"+
		"Please report it with the command, the version (minsep --version) and these lines. The same command may be repeated.\n%s", what, debug.Stack())
}
