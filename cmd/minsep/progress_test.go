package main

import (
	"strings"
	"testing"
	"time"

	"minsep/internal/transforms/progress"
)

// liveScreen is a terminal of so many columns that knows "\r" and "erase to the end of the line".
type liveScreen struct {
	width int
	lines [][]rune
	x, y  int
}

func (s *liveScreen) Write(b []byte) (int, error) {
	text := strings.ReplaceAll(string(b), "\x1b[K", "\x00")
	for _, r := range text {
		for len(s.lines) <= s.y {
			s.lines = append(s.lines, nil)
		}
		switch r {
		case '\r':
			s.x = 0
		case '\n':
			s.x, s.y = 0, s.y+1
		case 0:
			s.lines[s.y] = s.lines[s.y][:min(s.x, len(s.lines[s.y]))]
		default:
			if s.x == s.width {
				s.x, s.y = 0, s.y+1
				for len(s.lines) <= s.y {
					s.lines = append(s.lines, nil)
				}
			}
			s.lines[s.y] = append(s.lines[s.y][:s.x], append([]rune{r}, s.lines[s.y][min(s.x+1, len(s.lines[s.y])):]...)...)
			s.x++
		}
	}
	return len(b), nil
}

// TestNarrowTerminal: whatever the width, one line is used, and nothing of it is left.
func TestNarrowTerminal(t *testing.T) {
	progress.Reset()
	defer progress.Reset()
	for _, width := range []int{1, 2, 20, 40, 79, 80, 300} {
		s := &liveScreen{width: width}
		line := &liveLine{s, func() int { return width }}
		for i := range 5 {
			progress.Enter("verifying candidate 2 of 5, direction H(P,Q): a text that is σ wide", "samples", int64(1000*i), 123_456_789)
			line.show(progressText("account", time.Minute))
			if len(s.lines) != 1 || len(s.lines[0]) > width {
				t.Fatalf("width %d: %d lines: %q", width, len(s.lines), s.lines)
			}
		}
		if width >= 40 && !strings.HasPrefix(string(s.lines[0]), "account  1m0s  verifying candidate") {
			t.Errorf("width %d: %q", width, string(s.lines[0]))
		}
		line.clear()
		if len(s.lines[0]) > 0 {
			t.Errorf("width %d: %q is left", width, string(s.lines[0]))
		}
	}
}
