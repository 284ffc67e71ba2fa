// Command testlog reads the events of `go test -json` on standard input and says, for people,
// how the tests go: a line as each package ends, the output of a package that fails, and at the
// end the skipped tests, by name and with their reasons.
//
// Usage: go test -json ./... | testlog [-log FILE]
//
// It exits with 1 if a test or a package failed, or if a line is not an event.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	path := flag.String("log", "", "file for the tests' whole output, as `go test -v` prints it")
	flag.Parse()
	failed, err := run(*path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

func run(path string) (failed bool, err error) {
	r := report{out: os.Stdout, log: io.Discard, logName: path}
	if path != "" {
		f, err := os.Create(path)
		if err != nil {
			return false, err
		}
		w := bufio.NewWriter(f)
		defer func() {
			for _, step := range []func() error{w.Flush, f.Close} {
				if e := step(); err == nil {
					err = e
				}
			}
		}()
		r.log = w
	}
	if err := r.read(os.Stdin); err != nil {
		return true, err
	}
	return r.end(), nil
}
