// Command testlog reads the events of `go test -json` on standard input and says, for people, how
// the tests go: a line as each package ends, what a package that fails had to say, and at the end
// what was skipped, by name and with its reason.
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
