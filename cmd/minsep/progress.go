package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"minsep/internal/transforms/progress"
	"minsep/internal/words"
)

// watch shows the progress of a stage on standard error until stop is called. On a terminal it
// rewrites one line every half second. Elsewhere it prints a line after ten seconds, then at
// intervals that grow to a minute. With --quiet it shows nothing.
func (a *app) watch(stage string) (stop func()) {
	progress.Reset()
	if a.quiet {
		return func() {}
	}
	line, every := newLiveLine(a.terminal), 10*time.Second
	if line != nil {
		every = 500 * time.Millisecond
	}
	begin, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		next := time.Duration(0)
		for {
			select {
			case <-done:
				line.clear()
				return
			case <-tick.C:
			}
			switch elapsed := time.Since(begin); {
			case line != nil:
				line.show(progressText(stage, elapsed))
			case elapsed >= next:
				fmt.Fprintln(a.stderr, progressText(stage, elapsed))
				next = nextLine(elapsed)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// nextLine returns the time at which the next line of progress is due: at twice the elapsed time,
// but within a minute. It is a second early so that the ticker's jitter does not skip a tick.
func nextLine(elapsed time.Duration) time.Duration {
	return elapsed + min(elapsed, time.Minute) - time.Second
}

// longTime returns the time that a phase without counts has taken so far, once it is long: a line
// that stays the same looks as if nothing happened.
func longTime(elapsed time.Duration) string {
	if elapsed < 5*time.Second {
		return ""
	}
	return fmt.Sprintf(", for %s", elapsed.Round(time.Second))
}

// progressText formats the progress of a stage as one line: elapsed time, phase, and counts with
// their rates and the time left.
func progressText(stage string, elapsed time.Duration) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s  %s", stage, elapsed.Round(time.Second))
	counts := progress.Counts()
	limit := time.Time{}
	if phase := progress.Now(); phase.Text != "" {
		limit = phase.Limit
		elapsed = time.Since(phase.Begin)
		fmt.Fprintf(&line, "  %s", phase.Text)
		switch {
		case phase.Unit != "":
			counts = []progress.Count{{Name: phase.Unit, Total: phase.Done, Expected: phase.Expected}}
		case len(counts) == 0:
			line.WriteString(longTime(elapsed))
		}
	}
	for _, c := range counts {
		fmt.Fprintf(&line, "  %s %s", c.Name, words.Grouped(c.Total))
		if c.Expected > 0 {
			fmt.Fprintf(&line, " of %s", words.Grouped(c.Expected))
		}
		// A rate counts from the beginning of the phase, since phases differ in speed.
		if c.Total == c.Before { // no rate is known yet
			continue
		}
		fmt.Fprintf(&line, " (%s/s", words.Grouped(int64(float64(c.Total-c.Before)/max(elapsed.Seconds(), 1e-3))))
		if left, ok := c.Left(elapsed); ok {
			fmt.Fprintf(&line, ", %s left", left.Round(time.Second))
		}
		line.WriteByte(')')
	}
	if !limit.IsZero() {
		fmt.Fprintf(&line, "  at most %s left", max(0, time.Until(limit)).Round(time.Second))
	}
	return line.String()
}

// liveLine is a line of a terminal that is rewritten in place. Text that is too long for the
// terminal is cut: if it wrapped, the lines above would stay behind.
type liveLine struct {
	w     io.Writer
	width func() int // width of the terminal in columns; 0 if unknown
}

// newLiveLine returns nil if w is not a terminal.
func newLiveLine(w io.Writer) *liveLine {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &liveLine{w, func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0
		}
		return width
	}}
}

// defaultWidth is the assumed width of a terminal that does not report one.
const defaultWidth = 80

func (l *liveLine) show(text string) {
	width := l.width()
	if width <= 0 {
		width = defaultWidth
	}
	// The last column stays empty: some terminals move to the next line after writing to it.
	if runes := []rune(text); len(runes) > width-1 {
		text = string(runes[:max(0, width-2)]) + "…"
	}
	io.WriteString(l.w, "\r\x1b[K"+text)
}

func (l *liveLine) clear() {
	if l != nil {
		io.WriteString(l.w, "\r\x1b[K")
	}
}
