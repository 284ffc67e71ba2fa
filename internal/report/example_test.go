package report_test

import (
	"context"
	"log"
	"os"

	"minsep/internal/report"
)

// One page of a run directory, without anything that is secret.
func Example() {
	run, err := report.Read(context.Background(), "run", report.Options{})
	if err == nil {
		err = report.Write(os.Stdout, run, report.Options{})
	}
	if err != nil {
		log.Fatal(err)
	}
}
