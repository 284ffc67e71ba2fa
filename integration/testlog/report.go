package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of `go test -json`: see `go doc test2json`. Build events have an ImportPath
// instead of a Package.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// maxLines is how much of one test's output is shown; the log has all of it.
const maxLines = 120

// report collects events and prints their outcome.
type report struct {
	out, log io.Writer
	logName  string // for messages; "" if there is no log

	output                map[place][]string
	open                  []place // tests that have begun and not ended, in the order in which they began
	failed                []place // tests, in the order in which they ended
	skipped               []place
	build                 map[string][]string // the compiler's output, by package
	tests, packages, fell int
}

// place is a test, or a package if test is "".
type place struct{ pkg, test string }

// read takes all events. Lines that are none, as when the go command itself fails, are passed on
// and are an error at the end.
func (r *report) read(in io.Reader) error {
	r.output, r.build = map[place][]string{}, map[string][]string{}
	lines := bufio.NewReader(in)
	stray := 0
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				stray++
				fmt.Fprintf(r.out, "%s\n", strings.TrimRight(string(line), "\n"))
			} else {
				r.take(e)
			}
		}
		if err == io.EOF {
			if stray > 0 {
				return fmt.Errorf("%d lines of the input are not events of go test -json", stray)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	at := place{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.build[e.ImportPath] = append(r.build[e.ImportPath], e.Output)
		io.WriteString(r.log, e.Output)
	case "output":
		r.output[at] = append(r.output[at], e.Output)
		io.WriteString(r.log, e.Output)
	case "run":
		r.open = append(r.open, at)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(at, e.Action)
		}
	}
}

func (r *report) endTest(at place, action string) {
	r.tests++
	r.open = slices.DeleteFunc(r.open, func(p place) bool { return p == at })
	switch action {
	case "fail":
		r.failed = append(r.failed, at)
	case "skip":
		r.skipped = append(r.skipped, at)
	default:
		delete(r.output, at)
	}
}

// endPackage prints the line of a package, as the go command says it, after the output of its
// failing tests.
func (r *report) endPackage(e event) {
	if e.Action == "skip" { // it has no tests
		return
	}
	r.packages++
	if e.Action == "fail" {
		r.fell++
		r.failure(e)
	}
	summary := fmt.Sprintf("%s\t%s\n", e.Action, e.Package)
	for _, line := range r.output[place{pkg: e.Package}] {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") {
			summary = line
		}
	}
	io.WriteString(r.out, summary)
	for at := range r.output {
		if at.pkg == e.Package && !slices.Contains(r.skipped, at) {
			delete(r.output, at)
		}
	}
	r.failed = slices.DeleteFunc(r.failed, func(p place) bool { return p.pkg == e.Package })
}

// failure prints the output of a package that failed: first the compiler's, then of each test
// that failed or did not end, then the rest.
func (r *report) failure(e event) {
	r.show(r.build[e.FailedBuild])
	tests := slices.Clone(r.failed)
	for _, at := range r.open {
		if at.pkg == e.Package && !slices.Contains(tests, at) {
			r.output[at] = append(r.output[at], fmt.Sprintf("--- %s did not end\n", at.test))
			tests = append(tests, at)
		}
	}
	r.open = slices.DeleteFunc(r.open, func(p place) bool { return p.pkg == e.Package })
	slices.SortStableFunc(tests, func(a, b place) int { return strings.Compare(a.test, b.test) })
	for _, at := range append(tests, place{pkg: e.Package}) {
		if at.pkg == e.Package {
			r.show(r.output[at])
		}
	}
}

// show prints the output of a test, without the lines that every test has; of a long one the begin
// and the end.
func (r *report) show(output []string) {
	lines := strings.Split(strings.TrimRight(strings.Join(output, ""), "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		text := strings.TrimSpace(line)
		return text == "" || text == "PASS" || text == "FAIL" || strings.HasPrefix(text, "=== ") || strings.HasPrefix(line, "FAIL\t")
	})
	if n := len(lines) - maxLines; n > 0 {
		gap := fmt.Sprintf("    … %d lines", n)
		if r.logName != "" {
			gap += ": see " + r.logName
		}
		lines = slices.Replace(lines, maxLines/2, maxLines/2+n, gap)
	}
	for _, line := range lines {
		fmt.Fprintln(r.out, line)
	}
}

// end prints the skipped tests and the sum. It reports whether anything failed.
func (r *report) end() bool {
	fmt.Fprintln(r.out, "skipped:")
	if len(r.skipped) == 0 {
		fmt.Fprintln(r.out, "  nothing")
	}
	for _, at := range r.skipped {
		fmt.Fprintf(r.out, "  %s %s: %s\n", at.pkg, at.test, reason(r.output[at]))
	}
	fmt.Fprintf(r.out, "%d packages, %d of them failed; %d tests, %d of them skipped\n", r.packages, r.fell, r.tests, len(r.skipped))
	return r.fell > 0
}

// reason is the last output of a skipped test, without the place in the code.
func reason(output []string) string {
	said := "no reason given"
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, text, found := strings.Cut(line, ".go:"); found {
			if _, text, found = strings.Cut(text, ": "); found {
				line = text
			}
		}
		said = line
	}
	return said
}
