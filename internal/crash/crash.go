// Package crash keeps a program that fails by its own fault from ending with exit code 2: Go's
// runtime uses it for a crash, and minsep for bad input.
//
// A panic of the main goroutine is caught by [Guard]. Failures that Go lets nobody catch (memory
// that ran out, a stack that overflowed, a panic in a goroutine of a library) ends the process by
// SIGABRT after [Begin]: a shell shows 134.
package crash

import (
	"fmt"
	"io"
	"runtime/debug"
)

// ExitCode is the exit code of a program that failed by its own fault.
const ExitCode = 1

// Begin has the runtime end the process by SIGABRT where it would exit with 2. No core is dumped:
// it would hold keys.
func Begin() {
	noCore()
	debug.SetTraceback("crash")
}

// Guard returns the result of run. If run panics it says so on w, with the stack and how to report
// it, and returns [ExitCode].
func Guard(w io.Writer, run func() int) (code int) {
	defer func() {
		if v := recover(); v != nil {
			report(w, v)
			code = ExitCode
		}
	}()
	return run()
}

// report shows the kind of a panic and where it was. A value that is no error of the runtime is not
// shown: it may be anything.
func report(w io.Writer, v any) {
	what := fmt.Sprintf("%T", v)
	if e, ok := v.(interface{ RuntimeError() }); ok {
		what = fmt.Sprint(e)
	}
	fmt.Fprintf(w, "minsep: a fault of the program, not of the input: panic: %s\n"+
		"Please report it with the command, the version (minsep --version) and these lines. The same command may be repeated.\n%s", what, debug.Stack())
}
