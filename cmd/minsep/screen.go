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

// screen describes the terminal, or file, that text is formatted for.
type screen struct {
	width  int  // of a line, in columns, at least narrowest; 0 for no limit
	colour bool // whether verdicts have a colour
}

// narrowest is the smallest width that text is wrapped to; narrower terminals wrap by themselves.
// helpWidth is the width of help that does not go to a terminal.
const (
	narrowest = 40
	helpWidth = 100
)

// screenOf returns the screen behind w: a terminal, or a file, with lines of any length and no
// colour. $COLUMNS overrides the width, and $NO_COLOR switches colour off.
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

// write writes text wrapped and coloured for the screen. The text may hold parts by others, such as
// file names, so control characters are escaped.
func (s screen) write(w io.Writer, text string) error {
	text = fold(printable.Text(text), s.width)
	if s.colour {
		text = coloured(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// verdicts matches the coloured words at the start of a line, longer ones first.
var verdicts = regexp.MustCompile(
	`(?m)^(certified, but weak|verified, but weak|weak|certified|verified|NOT CERTIFIED|not certified|BROKEN|  BROKEN|warning)\b`,
)

// coloured colours verdicts: green for proven, red for not proven, amber for a warning.
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

// toCopy matches lines with a shell command. They are not wrapped, so that they can be copied.
var toCopy = regexp.MustCompile(`chmod |^next `)

// fold wraps lines longer than width at spaces. Text after a name in a column of its own continues
// below that text, other text two columns further in.
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

// named matches the name at the start of a line, up to the text in the next column.
var named = regexp.MustCompile(`^ *[^ ]+(?: [^ ]+)*   *`)

// foldLine wraps one line. Text without a name before it continues further columns in.
func foldLine(line string, width, further int) string {
	indent := len(line) - len(strings.TrimLeft(line, " ")) + further
	// A name that takes most of the line leaves no room for a column beside it.
	if at := utf8.RuneCountInString(named.FindString(line)); at > 0 && at <= width*3/5 {
		indent = at
	}
	var b strings.Builder
	column, start := 0, true // start: at the beginning of a line
	for rest := line; rest != ""; {
		space := len(rest) - len(strings.TrimLeft(rest, " "))
		end := space + strings.IndexByte(rest[space:]+" ", ' ')
		word := utf8.RuneCountInString(rest[:end])
		// A word that is longer than a line, such as a hash, stays where it is: on a line of its own it
		// would be too long as well.
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

// reflow joins and wraps paragraphs anew. Indented lines are kept as they are.
func reflow(text string, width int) string {
	var lines []string
	joins := false // the previous line may take the next one
	for line := range strings.SplitSeq(text, "\n") {
		plain := line != "" && !strings.HasPrefix(line, " ")
		if plain && joins {
			lines[len(lines)-1] += " " + line
		} else {
			lines = append(lines, line)
		}
		joins = plain
	}
	// Indented lines are tables and commands: a long one is wrapped, and none are joined.
	for i, line := range lines {
		if utf8.RuneCountInString(line) > width {
			lines[i] = foldLine(line, width, 0)
		}
	}
	return strings.Join(lines, "\n")
}
