package progress_test

import (
	"fmt"

	"minsep/internal/transforms/progress"
)

// A phase is what the user sees: its text, its unit, and how much of it is done.
func ExampleEnter() {
	progress.Enter("tables", "states", 0, 100)
	phase := progress.Now()
	fmt.Println(phase.Text)
	progress.Reset()
	// Output: tables
}
