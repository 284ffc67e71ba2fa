package inspect_test

import (
	"context"
	"fmt"
	"os"

	"minsep/internal/inspect"
)

// A folder without any file of a run is an error.
func ExampleDirectory() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	found, err := inspect.Directory(context.Background(), dir)
	fmt.Println(len(found), err != nil)
	// Output: 0 true
}

func ExampleJudge() {
	report := inspect.Judge(nil)
	fmt.Println(report.Verdict)
	// Output: NOT CERTIFIED: a single folder says nothing of privacy: inspect the run directory
}
