package main

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"minsep/internal/printable"
)

// screen is how text is shown to a reader.
type screen struct {
	width  int  // of a line, in columns, at least narrowest; 0 for any
	colour bool // of verdicts
}

// narrowest is the least width that lines are made for. Help has helpWidth where no terminal shows
// it.
const (
	narrowest = 40
	helpWidth = 100
)

// screenOf is the screen behind w: a terminal, or a file with lines of any length and without
// colour. $COLUMNS is a width that the user asks for, $NO_COLOR takes colours away.
func screenOf(w io.Writer) (s screen) {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			s.width = max(width, narrowest)
		} else {
			s.width = defaultWidth
		}
		s.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		s.width = max(width, narrowest)
	}
	return s
}

// write shows a text that others may have written parts of.
func (s screen) write(w io.Writer, text string) error {
	text = fold(printable.Text(text), s.width)
	if s.colour {
		text = coloured(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// verdicts are the words at the beginning of a line that have a colour, the longer ones first.
var verdicts = regexp.MustCompile(`(?m)^(certified, but weak|verified, but weak|weak|certified|verified|NOT CERTIFIED|not certified|BROKEN|  BROKEN|warning)\b`)

// coloured gives verdicts their colours: green for proven, red for not proven, amber for a
// point to think about.
func coloured(text string) string {
	return verdicts.ReplaceAllStringFunc(text, func(word string) string {
		code := "33" // amber
		switch strings.TrimSpace(word) {
		case "certified", "verified":
			code = "32"
		case "NOT CERTIFIED", "not certified", "BROKEN":
			code = "31"
		}
		return "\x1b[" + code + "m" + word + "\x1b[0m"
	})
}

// toCopy finds lines with a command for a shell, which stay one line.
var toCopy = regexp.MustCompile(`chmod |^next `)

// fold breaks the lines of a text at spaces where they are longer than width. Text that follows
// a name in a column of its own goes on under itself, other text two columns further in.
func fold(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		if utf8.RuneCountInString(body) > width && !toCopy.MatchString(body) {
			body = foldLine(body, width, 2)
		}
		b.WriteString(body)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// named finds the name before a text in a column of its own.
var named = regexp.MustCompile(`^ *[^ ]+(?: [^ ]+)*   *`)

// foldLine breaks a line; text that has no name before it goes on so many columns further in.
func foldLine(line string, width, further int) string {
	indent := len(line) - len(strings.TrimLeft(line, " ")) + further
	if at := utf8.RuneCountInString(named.FindString(line)); at > 0 && at <= width*3/5 {
		indent = at
	}
	var b strings.Builder
	column, start := 0, true // whether a line begins here
	for rest := line; rest != ""; {
		space := len(rest) - len(strings.TrimLeft(rest, " "))
		end := space + strings.IndexByte(rest[space:]+" ", ' ')
		word := utf8.RuneCountInString(rest[:end])
		if !start && column+word > width && column > indent && word-space <= width-indent {
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column, rest, end = indent, rest[space:], end-space
			word -= space
		}
		b.WriteString(rest[:end])
		column, rest, start = column+word, rest[end:], false
	}
	return strings.TrimRight(b.String(), " ")
}

// reflow breaks paragraphs anew. Indented lines keep their places.
func reflow(text string, width int) string {
	var lines []string
	joins := false // whether a line goes on with the next
	for line := range strings.SplitSeq(text, "\n") {
		plain := line != "" && !strings.HasPrefix(line, " ")
		if plain && joins {
			lines[len(lines)-1] += " " + line
		} else {
			lines = append(lines, line)
		}
		joins = plain
	}
	for i, line := range lines {
		if utf8.RuneCountInString(line) > width {
			lines[i] = foldLine(line, width, 0)
		}
	}
	return strings.Join(lines, "\n")
}
