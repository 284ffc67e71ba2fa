// Package must says what a test expects of errors. Only test files import it.
package must

import (
	"strings"
	"testing"
)

// Do ends the test if err is not nil.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get takes the results of a function. What it returns gives the value, or ends the test at the
// error: must.Get(os.ReadFile(name))(t).
func Get[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Fail takes what a function returns, whose last result is an error. The test fails, and goes on, if
// that error does not say want: must.Fail(t, "a closed file", "file already closed")(f.Read(b)).
func Fail(t testing.TB, about, want string) func(results ...any) {
	return func(results ...any) {
		t.Helper()
		err, _ := results[len(results)-1].(error)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error that says %q", about, err, want)
		}
	}
}
