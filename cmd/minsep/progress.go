package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"minsep/transforms/progress"
)

// watch shows the progress of a stage on standard error until the returned function is called: one line that is
// rewritten on a terminal, else a line every ten seconds, nothing with --quiet.
func (a *app) watch(stage string) (stop func()) {
	progress.Reset()
	if a.quiet {
		return func() {}
	}
	file, ok := a.stderr.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	every := 10 * time.Second
	if terminal {
		every = 500 * time.Millisecond
	}
	begin, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				if terminal && a.logFormat != "json" {
					fmt.Fprint(a.stderr, "\r\x1b[K")
				}
				return
			case <-tick.C:
				a.progressLine(stage, time.Since(begin), terminal)
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (a *app) progressLine(stage string, elapsed time.Duration, terminal bool) {
	if a.logFormat == "json" {
		attrs := []any{"stage", stage, "seconds", elapsed.Seconds()}
		for _, c := range progress.Counts() {
			attrs = append(attrs, c.Name, c.Total)
		}
		a.log.Info("progress", attrs...)
		return
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%s  %s", stage, elapsed.Round(time.Second))
	for _, c := range progress.Counts() {
		fmt.Fprintf(&line, "  %s %s", c.Name, grouped(c.Total))
		if c.Expected > 0 {
			fmt.Fprintf(&line, " of %s", grouped(c.Expected))
		}
		fmt.Fprintf(&line, " (%s/s", grouped(int64(float64(c.Total)/elapsed.Seconds())))
		if left, ok := c.Left(elapsed); ok {
			fmt.Fprintf(&line, ", %s left", left.Round(time.Second))
		}
		line.WriteByte(')')
	}
	if terminal {
		io.WriteString(a.stderr, "\r\x1b[K"+line.String())
	} else {
		fmt.Fprintln(a.stderr, line.String())
	}
}

// grouped writes n with a separator every three digits.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if neg {
		return "-" + s
	}
	return s
}
